// Different collectives after each other on one stream, without waiting in
// between: slots change hands between operations whose ranks are at
// different places. Small slots make that happen often.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "naive_tree.hpp"
#include "networks.hpp"
#include "tnt/comm/base/array.hpp"
#include "tnt/comm/communicator/group_object.hpp"
#include "tnt/comm/communicator/streams.hpp"

namespace tnt::comm {
namespace {

using tests::NamedJob;
using tests::run_job;
using tests::sum_of;
using tests::values_of;

/// Where a rank makes its calls.
struct Caller {
  Group& group;
  Collectives& stream;
  std::shared_ptr<Stream> order = std::make_shared<Stream>();
};

/// One call of a random program, the same on all ranks, and what it must give.
class RandomCall {
 public:
  RandomCall(CollectiveKind kind, std::size_t count, int root)
      : kind_(kind), count_(count), root_(root) {}

  void start(const Caller& caller, const std::vector<float>& input) {
    rank_ = caller.group.rank();
    size_ = caller.group.size();
    operation_ = make(caller.stream, input.data());
    caller.group.engine().submit(caller.order, operation_);
  }

  void check(const Caller& caller, const std::vector<float>& sum) {
    wait_for(caller.group, *operation_, 1, 30, {});
    switch (kind_) {
      case CollectiveKind::allreduce:
        return expect(sum, {0, count_});
      case CollectiveKind::broadcast:
      case CollectiveKind::scatter:
        return expect(values_of(root_, count_), received());
      case CollectiveKind::reduce_scatter:
        return expect(sum, received());
      case CollectiveKind::alltoall:
        return check_parts();
      case CollectiveKind::allgather:
      case CollectiveKind::gather:
        return check_blocks();
      case CollectiveKind::barrier:
      case CollectiveKind::creation:
        return;
    }
  }

 private:
  Collectives::Made make(Collectives& stream, const float* in) {
    const CollectiveTraits& traits = traits_of(kind_);
    Descriptor descriptor{.kind = kind_};
    if (!traits.has_data) return stream.make(descriptor, {});
    descriptor.dtype = DType::float32;
    descriptor.count = traits.takes_any_count() ? block_size(rank_) : count_;
    if (traits.has_root) descriptor.root = static_cast<std::uint32_t>(root_);
    if (traits.takes_any_count()) {
      gathered_ = std::make_shared<Gathered>();
      return stream.make(descriptor, {.in = in, .gathered = gathered_});
    }
    out_.resize(received().size() * (traits.result == ResultLayout::parts ? num_members() : 1));
    std::vector<Range> parts;
    for (int member = 0; traits.cuts_rows() && member < size_; ++member) {
      parts.push_back(part(member));
    }
    return stream.make(descriptor, {.in = in, .out = out_.data(), .parts = parts});
  }

  std::size_t num_members() const { return static_cast<std::size_t>(size_); }

  Range part(int rank) const {
    return part_of(count_, num_members(), static_cast<std::size_t>(rank));
  }

  /// What this rank gets of an array.
  Range received() const { return traits_of(kind_).cuts_rows() ? part(rank_) : Range{0, count_}; }

  std::size_t block_size(int rank) const { return count_ * static_cast<std::size_t>(rank % 3) / 2; }

  void expect(const std::vector<float>& whole, const Range& range) const {
    const float* values = whole.data();
    EXPECT_TRUE(std::equal(out_.begin(), out_.end(), values + range.begin, values + range.end));
  }

  void check_parts() const {
    std::vector<float> parts;
    for (int rank = 0; rank < size_; ++rank) {
      const auto values = values_of(rank, count_);
      const float* begin = values.data();
      parts.insert(parts.end(), begin + received().begin, begin + received().end);
    }
    EXPECT_EQ(out_, parts);
  }

  void check_blocks() const {
    if (traits_of(kind_).has_root && rank_ != root_) return;
    const auto* blocks = reinterpret_cast<const float*>(gathered_->blocks.data());
    for (int rank = 0; rank < size_; ++rank) {
      const auto which = static_cast<std::size_t>(rank);
      const auto block = values_of(rank, block_size(rank));
      const std::size_t begin = gathered_->begin_of(which) / sizeof(float);
      ASSERT_EQ(gathered_->ends[which] / sizeof(float), begin + block.size());
      EXPECT_TRUE(std::equal(block.begin(), block.end(), blocks + begin));
    }
  }

  CollectiveKind kind_;
  std::size_t count_;
  int root_;
  int rank_ = 0;
  int size_ = 0;
  std::vector<float> out_;
  Collectives::Made operation_;
  std::shared_ptr<Gathered> gathered_;
};

/// The program of one round: random, and the same on all ranks.
std::vector<RandomCall> random_calls(std::mt19937& random, const std::vector<CollectiveKind>& kinds,
                                     int size, std::size_t most_elements) {
  const std::size_t counts[] = {0, 1, 100, most_elements / 16, most_elements / 3, most_elements};
  std::vector<RandomCall> calls;
  for (int i = 0; i < 8; ++i) {
    calls.emplace_back(kinds[random() % kinds.size()], counts[random() % std::size(counts)],
                       static_cast<int>(random() % static_cast<unsigned>(size)));
  }
  return calls;
}

std::vector<CollectiveKind> all_kinds() {
  std::vector<CollectiveKind> kinds;
  for (std::size_t kind = 0; kind < kNumCallableKinds; ++kind) {
    kinds.push_back(static_cast<CollectiveKind>(kind));
  }
  return kinds;
}

std::unique_ptr<Collectives> stream_with_slots(Runtime& runtime, std::size_t slot_bytes) {
  Group& group = *runtime.world();
  const OperationContext context{group.abort_state(), group.tree(), runtime.requested_algorithm(),
                                 nullptr};
  const MemoryNeeds needs = stream_needs(group.topology(), group.tree(), slot_bytes);
  StreamMemory memory;
  memory.slot_bytes = slot_bytes;
  create_together(group, "stream", "", [&](SegmentSet& segments) {
    if (group.topology() == Topology::hierarchical) create_levels(segments, group.hosts(), memory);
    memory.segment = segments.create(needs);
  });
  return make_stream(group, context, memory);
}

struct MixedCase {
  NamedJob named;
  std::size_t slot_bytes;
};

std::ostream& operator<<(std::ostream& stream, const MixedCase& mixed) {
  return stream << mixed.named << " with slots of " << mixed.slot_bytes << " bytes";
}

std::string name_of_case(const ::testing::TestParamInfo<MixedCase>& info) {
  return text(info.param.named.name, "_slots_of_", info.param.slot_bytes);
}

class MixedCalls : public ::testing::TestWithParam<MixedCase> {
 protected:
  static void run_random_program(const std::vector<CollectiveKind>& kinds);
};

void MixedCalls::run_random_program(const std::vector<CollectiveKind>& kinds) {
  const std::size_t slot_bytes = GetParam().slot_bytes;
  const std::size_t most_elements = std::min<std::size_t>(10 * slot_bytes, 90021);
  const int size = GetParam().named.job.size;
  const auto sum = sum_of(size, most_elements);
  run_job(GetParam().named.job, [&](Runtime& runtime) {
    const int rank = runtime.environment().rank;
    const auto input = values_of(rank, most_elements);
    const auto stream = stream_with_slots(runtime, slot_bytes);
    const Caller caller{*runtime.world(), *stream};
    std::mt19937 random(7);                                      // of the program
    std::mt19937 own_random(static_cast<unsigned>(rank) + 100);  // of this rank's delays
    for (int round = 0; round < 8; ++round) {
      std::vector<RandomCall> calls = random_calls(random, kinds, size, most_elements);
      for (RandomCall& call : calls) {
        if (own_random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        call.start(caller, input);
      }
      for (RandomCall& call : calls) call.check(caller, sum);
    }
  });
}

TEST_P(MixedCalls, OfARandomProgramGiveWhatEachGivesAlone) {
  run_random_program(all_kinds());
}

// A rank at the end of one tree is done while the one it is to send to in the
// next tree is far behind.
TEST_P(MixedCalls, OfBroadcastsFromChangingRootsDoNotMeet) {
  run_random_program({CollectiveKind::broadcast});
}

std::vector<MixedCase> all_cases() {
  std::vector<MixedCase> cases = {{tests::shared_memory(3), 32768}};
  for (const std::size_t slot_bytes : {std::size_t{512}, std::size_t{4096}}) {
    for (const int size : {2, 3, 4, 6, 8}) {
      cases.push_back({tests::put_only(size), slot_bytes});
      cases.push_back({tests::late(tests::put_only(size)), slot_bytes});
    }
    for (const auto& [hosts, ranks] : {std::pair{2, 2}, {2, 4}, {3, 2}}) {
      cases.push_back({tests::on_hosts(hosts, ranks), slot_bytes});
      cases.push_back({tests::late(tests::on_hosts(hosts, ranks)), slot_bytes});
    }
  }
  for (const std::string algorithm : {"one_shot", "halving_doubling", "pipelined", "two_shot"}) {
    cases.push_back({tests::with_algorithm(tests::late(tests::put_only(4)), algorithm), 1024});
    cases.push_back({tests::with_algorithm(tests::late(tests::on_hosts(2, 2)), algorithm), 1024});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Networks, MixedCalls, ::testing::ValuesIn(all_cases()), name_of_case);

}  // namespace
}  // namespace tnt::comm
