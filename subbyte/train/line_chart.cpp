// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace subbyte::train {
namespace {

constexpr double kWidth = 760, kHeight = 440;
constexpr double kLeft = 70, kRight = 580, kTop = 44, kBottom = 384;  // of the drawing area

// Okabe and Ito's palette: told apart by colour-blind readers too.
constexpr std::array<const char*, 8> kColours{"#d55e00", "#0072b2", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#000000", "#999999"};

struct Axis {
    std::vector<double> ticks;
    double from, to;  // pixels of the first and the last tick

    double at(double value) const {
        return from + (to - from) * (value - ticks.front()) / (ticks.back() - ticks.front());
    }
};

std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '<': result += "&lt;"; break;
            case '>': result += "&gt;"; break;
            case '&': result += "&amp;"; break;
            case '"': result += "&quot;"; break;
            default: result += c;
        }
    }
    return result;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const char* more = "") {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                       anchor, more, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, colour);
}

// Circle, square, triangle, diamond, in turns.
std::string marker(std::size_t kind, double x, double y, const char* colour) {
    switch (kind % 4) {
        case 0:
            return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x, y,
                               colour);
        case 1:
            return fmt::format(
                "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\" fill=\"{}\"/>\n", x - 3.5,
                y - 3.5, colour);
        case 2:
            return fmt::format("<path d=\"M {:.1f} {:.1f} l 4.5 8 h -9 z\" fill=\"{}\"/>\n", x,
                               y - 5, colour);
        default:
            return fmt::format("<path d=\"M {:.1f} {:.1f} l 5 5 l -5 5 l -5 -5 z\" fill=\"{}\"/>\n",
                               x, y - 5, colour);
    }
}

std::vector<std::pair<double, double>> drawable(const ChartSeries& series) {
    std::vector<std::pair<double, double>> points;
    for (const auto& point : series.points) {
        if (std::isfinite(point.first) && std::isfinite(point.second)) points.push_back(point);
    }
    std::stable_sort(points.begin(), points.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return points;
}

std::pair<Axis, Axis> axes_of(const LineChart& chart) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    std::pair<double, double> x{kNone, -kNone}, y{kNone, -kNone};
    for (const ChartSeries& series : chart.series) {
        for (const auto& [px, py] : drawable(series)) {
            x = {std::min(x.first, px), std::max(x.second, px)};
            y = {std::min(y.first, py), std::max(y.second, py)};
        }
    }
    if (x.first > x.second) x = y = {0, 1};
    return {Axis{axis_ticks(x.first, x.second, 6), kLeft, kRight},
            Axis{axis_ticks(y.first, y.second, 6), kBottom, kTop}};
}

std::string draw_axes(const LineChart& chart, const Axis& x, const Axis& y) {
    std::string svg;
    for (const double tick : y.ticks) {
        svg += line(kLeft, y.at(tick), kRight, y.at(tick), "#dddddd");
        svg += text_at(kLeft - 8, y.at(tick) + 4, "end", fmt::format("{:.4g}", tick));
    }
    for (const double tick : x.ticks) {
        svg += line(x.at(tick), kBottom, x.at(tick), kBottom + 5, "#555555");
        svg += text_at(x.at(tick), kBottom + 20, "middle", fmt::format("{:.4g}", tick));
    }
    svg += line(kLeft, kBottom, kRight, kBottom, "#555555");
    svg += text_at(kLeft, 24, "start", chart.title, " font-weight=\"bold\"");
    svg += text_at((kLeft + kRight) / 2, kHeight - 16, "middle", chart.x_label);
    const double middle = (kTop + kBottom) / 2;
    return svg + text_at(18, middle, "middle", chart.y_label,
                         fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle).c_str());
}

std::string draw_series(const ChartSeries& series, std::size_t index, const Axis& x,
                        const Axis& y) {
    const char* colour = kColours[index % kColours.size()];
    std::string path, markers;
    for (const auto& [px, py] : drawable(series)) {
        path += fmt::format("{:.1f},{:.1f} ", x.at(px), y.at(py));
        markers += marker(index, x.at(px), y.at(py), colour);
    }
    if (path.empty()) return "";
    path.pop_back();
    return fmt::format(
               "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n", path,
               colour, index == 0 ? "3" : "1.5") +
           markers;
}

}  // namespace

std::vector<double> axis_ticks(double least, double most, int count) {
    if (!(most > least)) {
        const double margin = least != 0 ? 0.1 * std::abs(least) : 0.5;
        least -= margin;
        most += margin;
    }
    const double raw = (most - least) / std::max(1, count - 1);
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double round : {1.0, 2.0, 5.0}) {
        if (round * power >= raw * (1 - 1e-9)) {
            step = round * power;
            break;
        }
    }
    const double first = std::floor(least / step + 1e-9), last = std::ceil(most / step - 1e-9);
    std::vector<double> ticks;
    for (double i = first; i <= last; ++i) ticks.push_back(i * step);
    return ticks;
}

std::string to_svg(const LineChart& chart) {
    const auto [x, y] = axes_of(chart);
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        kWidth, kHeight);
    svg += draw_axes(chart, x, y);
    for (std::size_t i = chart.series.size(); i-- > 0;) {
        svg += draw_series(chart.series[i], i, x, y);
    }
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
        const double at = kTop + 8 + 20.0 * static_cast<double>(i);
        svg += marker(i, kRight + 20, at, kColours[i % kColours.size()]);
        svg += text_at(kRight + 32, at + 4, "start", chart.series[i].name);
    }
    return svg + "</svg>\n";
}

}  // namespace subbyte::train
