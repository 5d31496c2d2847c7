// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/line_chart.h"

#include <gtest/gtest.h>

#include <limits>

namespace subbyte::train {
namespace {

TEST(AxisTicks, AreRoundAndHoldTheRange) {
    const std::vector<double> fifths = axis_ticks(0, 1, 6);
    ASSERT_EQ(fifths.size(), 6u);
    for (std::size_t i = 0; i < fifths.size(); ++i) EXPECT_NEAR(fifths[i], 0.2 * double(i), 1e-12);
    EXPECT_EQ(axis_ticks(25, 80, 6), (std::vector<double>{20, 40, 60, 80}));
    const std::vector<double> small = axis_ticks(0.013, 0.0241, 6);
    EXPECT_LE(small.front(), 0.013);
    EXPECT_GE(small.back(), 0.0241);
    EXPECT_NEAR(small[1] - small[0], 0.005, 1e-12);
}

TEST(AxisTicks, OfASingleValueLieAroundIt) {
    for (const double value : {0.0, 3.5, -2.0, 1e-9}) {
        const std::vector<double> ticks = axis_ticks(value, value, 6);
        EXPECT_LT(ticks.front(), value);
        EXPECT_GT(ticks.back(), value);
    }
}

// x from 0 to 1 lies between the pixels 70 and 580, y from 0 to 2 between 384 and 44.
TEST(LineChart, PutsPointsWhereTheirNumbersAre) {
    const std::string svg =
        to_svg({"t", "x", "y", {{"snip", {{1, 2}, {0, 0}, {0.5, 1}}}, {"random", {{0, 2}}}}});
    EXPECT_NE(svg.find("points=\"70.0,384.0 325.0,214.0 580.0,44.0\""), std::string::npos) << svg;
    EXPECT_LT(svg.find("random"), svg.size());
    EXPECT_EQ(svg.rfind("</svg>\n"), svg.size() - 7);
}

TEST(LineChart, LeavesOutWhatIsNoNumberAndEscapesNames) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::string svg = to_svg({"a < b & c", "x", "y", {{"\"s\"", {{0, nan}, {1, 1}}}}});
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
    EXPECT_NE(svg.find("&quot;s&quot;"), std::string::npos);
    EXPECT_NE(to_svg({"", "", "", {}}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace subbyte::train
