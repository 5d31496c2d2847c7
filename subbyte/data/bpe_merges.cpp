// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/bpe_merges.h"

#include <queue>

namespace subbyte::data {
namespace {

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
}

// A symbol of the word in a linked list; id -1: it was merged into its left neighbour.
struct Symbol {
    std::int32_t id, previous, next;
};

struct Candidate {
    std::int32_t rank, at, id;  // position of the left symbol; what the pair becomes
    bool operator<(const Candidate& other) const {  // the queue's front is its greatest entry
        return rank != other.rank ? rank > other.rank : at > other.at;
    }
};

}  // namespace

void BpeMerges::add(std::int32_t left, std::int32_t right, std::int32_t merged) {
    merges_.insert_or_assign(key_of(left, right), Merge{next_rank_++, merged});
}

const BpeMerges::Merge* BpeMerges::find(std::int32_t left, std::int32_t right) const {
    const auto found = merges_.find(key_of(left, right));
    return found == merges_.end() ? nullptr : &found->second;
}

void BpeMerges::apply(const std::vector<std::int32_t>& ids, std::vector<std::int32_t>& out) const {
    const auto count = static_cast<std::int32_t>(ids.size());
    std::vector<Symbol> word(ids.size());
    for (std::int32_t i = 0; i < count; ++i) {
        word[static_cast<std::size_t>(i)] = {ids[static_cast<std::size_t>(i)], i - 1,
                                             i + 1 < count ? i + 1 : -1};
    }
    const auto at = [&](std::int32_t i) -> Symbol& { return word[static_cast<std::size_t>(i)]; };
    std::vector<Candidate> storage;
    storage.reserve(ids.size());
    std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(storage));
    const auto offer = [&](std::int32_t left) {
        if (left < 0 || at(left).next < 0) return;
        if (const Merge* merge = find(at(left).id, at(at(left).next).id)) {
            queue.push({merge->rank, left, merge->id});
        }
    };
    for (std::int32_t i = 0; i + 1 < count; ++i) offer(i);
    while (!queue.empty()) {
        const Candidate best = queue.top();
        queue.pop();
        Symbol& left = at(best.at);
        if (left.id < 0 || left.next < 0) continue;
        Symbol& right = at(left.next);
        // One of the two may have changed since the pair was offered.
        const Merge* merge = find(left.id, right.id);
        if (merge == nullptr || merge->rank != best.rank) continue;
        left.id = best.id;
        right.id = -1;
        left.next = right.next;
        if (left.next >= 0) at(left.next).previous = best.at;
        offer(left.previous);
        offer(best.at);
    }
    for (const Symbol& symbol : word) {
        if (symbol.id >= 0) out.push_back(symbol.id);
    }
}

}  // namespace subbyte::data
