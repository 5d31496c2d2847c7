// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/spec_options.h"

#include <fmt/format.h>

#include <vector>

namespace subbyte::formats {
namespace {

template <Rounding kRounding>
void round(QuantSpec& spec) {
    spec.rounding = kRounding;
}

template <int kBits>
void stochastic(QuantSpec& spec) {
    spec.rounding = Rounding::kStochastic;
    spec.noise_bits = kBits;
}

template <int kSize, bool kFresh>
void rotate(QuantSpec& spec) {
    spec.rotation = {kSize, kFresh};
}

template <ScaleOrder kOrder>
void order(QuantSpec& spec) {
    spec.order = kOrder;
}

template <FourOverSix kRule>
void four_over_six(QuantSpec& spec) {
    spec.four_over_six = kRule;
}

// The position is the canonical one: to_string() writes the words of a spec in this order.
constexpr std::array kWords{
    OptionWord{"rht16", OptionGroup::kRotation, rotate<16, false>},
    OptionWord{"rht32", OptionGroup::kRotation, rotate<32, false>},
    OptionWord{"rht64", OptionGroup::kRotation, rotate<64, false>},
    OptionWord{"rht128", OptionGroup::kRotation, rotate<128, false>},
    OptionWord{"rht16fresh", OptionGroup::kRotation, rotate<16, true>},
    OptionWord{"rht32fresh", OptionGroup::kRotation, rotate<32, true>},
    OptionWord{"rht64fresh", OptionGroup::kRotation, rotate<64, true>},
    OptionWord{"rht128fresh", OptionGroup::kRotation, rotate<128, true>},
    OptionWord{"mseden", OptionGroup::kMsEden, [](QuantSpec& spec) { spec.ms_eden = true; }},
    OptionWord{"4over6", OptionGroup::kFourOverSix, four_over_six<FourOverSix::kMse>},
    OptionWord{"4over6mae", OptionGroup::kFourOverSix, four_over_six<FourOverSix::kMae>},
    OptionWord{"teb", OptionGroup::kOrder, order<ScaleOrder::kTeB>},
    OptionWord{"torchao", OptionGroup::kOrder, order<ScaleOrder::kTorchao>},
    OptionWord{"ggml", OptionGroup::kOrder, order<ScaleOrder::kGgml>},
    OptionWord{"recip", OptionGroup::kOrder, order<ScaleOrder::kReciprocal>},
    OptionWord{"guard", OptionGroup::kGuard, [](QuantSpec& spec) { spec.guard = true; }},
    OptionWord{"away", OptionGroup::kRounding, round<Rounding::kNearestAway>},
    OptionWord{"zero", OptionGroup::kRounding, round<Rounding::kTowardZero>},
    OptionWord{"up", OptionGroup::kRounding, round<Rounding::kUp>},
    OptionWord{"down", OptionGroup::kRounding, round<Rounding::kDown>},
    OptionWord{"sr", OptionGroup::kRounding, stochastic<16>},
    OptionWord{"sr1", OptionGroup::kRounding, stochastic<1>},
    OptionWord{"sr2", OptionGroup::kRounding, stochastic<2>},
    OptionWord{"sr3", OptionGroup::kRounding, stochastic<3>},
    OptionWord{"sr4", OptionGroup::kRounding, stochastic<4>},
    OptionWord{"sr5", OptionGroup::kRounding, stochastic<5>},
    OptionWord{"sr6", OptionGroup::kRounding, stochastic<6>},
    OptionWord{"sr7", OptionGroup::kRounding, stochastic<7>},
    OptionWord{"sr8", OptionGroup::kRounding, stochastic<8>},
    OptionWord{"sr9", OptionGroup::kRounding, stochastic<9>},
    OptionWord{"sr10", OptionGroup::kRounding, stochastic<10>},
    OptionWord{"sr11", OptionGroup::kRounding, stochastic<11>},
    OptionWord{"sr12", OptionGroup::kRounding, stochastic<12>},
    OptionWord{"sr13", OptionGroup::kRounding, stochastic<13>},
    OptionWord{"sr14", OptionGroup::kRounding, stochastic<14>},
    OptionWord{"sr15", OptionGroup::kRounding, stochastic<15>},
};

bool is_nvfp4_like(const QuantSpec& spec) {
    return spec.element == find_element("e2m1") && spec.scale == ScaleFormat::kUe4m3;
}

std::string order_conflict(const QuantSpec& spec) {
    switch (spec.order) {
        case ScaleOrder::kStandard: return {};
        case ScaleOrder::kTeB:
            return is_ue(spec.scale) && spec.second_level
                       ? ""
                       : "teb needs a ue scale with a second level (+f32)";
        case ScaleOrder::kTorchao:
            if (!is_nvfp4_like(spec)) return "torchao needs e2m1 with a ue4m3 scale";
            if (spec.rule != ScaleRule::kDefault) return "torchao has no scale rule";
            return spec.level_tile == Tile::tensor() ? "" : "torchao has one scale per tensor";
        case ScaleOrder::kGgml:
            if (!is_nvfp4_like(spec)) return "ggml needs e2m1 with a ue4m3 scale";
            if (spec.rule != ScaleRule::kDefault) return "ggml has no scale rule";
            if (spec.second_level) return "ggml has no second level";
            return spec.rounding == Rounding::kNearestEven ? "" : "ggml has a rounding of its own";
        case ScaleOrder::kReciprocal:
            return spec.scale == ScaleFormat::kFp32 && !spec.second_level
                       ? ""
                       : "recip needs an f32 scale without a second level";
    }
    return {};
}

std::string guard_conflict(const QuantSpec& spec) {
    if (spec.order == ScaleOrder::kTorchao || spec.order == ScaleOrder::kGgml) {
        return "torchao and ggml have no guard";
    }
    if (is_ue(spec.scale)) return {};
    if (spec.scale != ScaleFormat::kE8m0 || spec.rule != ScaleRule::kFloor) {
        return "guard needs a ue scale or e8m0/floor: nothing is cut off with the others";
    }
    return spec.second_level ? "guard and e8m0 need a scale without a second level" : "";
}

std::string four_over_six_conflict(const QuantSpec& spec) {
    if (spec.element != find_element("e2m1") || !is_ue(spec.scale)) {
        return "4over6 needs e2m1 with a ue scale";
    }
    if (spec.rule != ScaleRule::kDefault) return "4over6 has no scale rule";
    if (spec.order != ScaleOrder::kStandard) return "4over6 has an order of operations of its own";
    return spec.guard ? "4over6 and guard exclude each other" : "";
}

std::string ms_eden_conflict(const QuantSpec& spec) {
    if (spec.rotation.size == 0) return "mseden needs a rotation such as rht32";
    if (!is_ue(spec.scale) || !spec.second_level) {
        return "mseden needs a ue scale with a second level (+f32)";
    }
    const bool fits = spec.tile.kind == Tile::Kind::kBlock && spec.tile.rows == 1 &&
                      spec.rotation.size % spec.tile.cols == 0;
    if (!fits) return "mseden needs tiles 1xN of which a rotation holds whole ones";
    if (spec.rule != ScaleRule::kDefault) return "mseden has no scale rule";
    if (spec.order != ScaleOrder::kStandard) return "mseden has an order of operations of its own";
    if (spec.four_over_six != FourOverSix::kOff) return "mseden and 4over6 exclude each other";
    if (spec.guard) return "mseden has a guard of its own";
    return spec.rounding == Rounding::kNearestEven
               ? ""
               : "mseden rounds elements to nearest and the scales at random";
}

}  // namespace

std::span<const OptionWord> option_words() { return kWords; }

std::string option_text(const QuantSpec& spec) {
    std::string text;
    for (const OptionWord& option : kWords) {
        // A word belongs to the spec when it changes nothing.
        QuantSpec applied = spec;
        option.apply(applied);
        if (applied == spec) text += fmt::format(":{}", option.word);
    }
    return text;
}

std::string option_conflict(const QuantSpec& spec, OptionGroup group) {
    switch (group) {
        case OptionGroup::kMsEden: return ms_eden_conflict(spec);
        case OptionGroup::kFourOverSix: return four_over_six_conflict(spec);
        case OptionGroup::kOrder: return order_conflict(spec);
        case OptionGroup::kGuard: return guard_conflict(spec);
        case OptionGroup::kRotation:
        case OptionGroup::kRounding: break;
    }
    return {};
}

}  // namespace subbyte::formats
