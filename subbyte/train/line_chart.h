// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace subbyte::train {

struct ChartSeries {
    std::string name;
    std::vector<std::pair<double, double>> points;  // x, y; drawn in the order of x
};

struct LineChart {
    std::string title, x_label, y_label;
    std::vector<ChartSeries> series;
};

// The chart as a picture (SVG 1.1, 760 x 440): linear axes with round ticks that hold every finite
// point, one colour and one marker per series, names at the right. The first series is drawn last
// and thickest. Points that are not finite are left out; without any point the axes run from 0 to
// 1.
std::string to_svg(const LineChart& chart);

// Round numbers from at or below `least` to at or above `most`, about `count` of them: steps of 1,
// 2 or 5 times a power of ten.
std::vector<double> axis_ticks(double least, double most, int count);

}  // namespace subbyte::train
