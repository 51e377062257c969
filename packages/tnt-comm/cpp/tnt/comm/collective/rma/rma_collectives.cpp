#include "tnt/comm/collective/rma/rma_collectives.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/exchange.hpp"

namespace tnt::comm {
namespace {

/// A call of a collective among ranks that can only put into each other's memory.
///
/// All ranks compare what they think they are doing while the first blocks are under way. Nothing
/// is copied out before they have agreed, and no operation is complete: so when a rank has
/// completed a call, all have begun it, and hence completed the one before.
///
/// That makes it safe to use the slots for different collectives in turn. Data sent before the
/// fingerprint check goes to landing areas, for the first `depth` blocks: RmaStream's argument
/// covers them where the call before had that structure too, and a broadcast uses no landing area.
/// A work that writes elsewhere, or needs to know the others' counts, waits for the fingerprint
/// check, after which all slots are free everywhere.
template <typename Work>
class RmaCall final : public CollectiveOperation {
 public:
  template <typename... Arguments>
  RmaCall(std::shared_ptr<RmaStream> stream, const Descriptor& descriptor, Arguments&&... arguments)
      : CollectiveOperation(stream->abort_state),
        pipeline_(std::move(stream)),
        descriptor_(descriptor),
        work_(pipeline_, descriptor, std::forward<Arguments>(arguments)...) {}

  void release_arrays() override { work_.release_arrays(); }

 protected:
  Progress do_advance() override {
    try {
      const Progress progress = advance_both();
      check().flush();
      return progress;
    } catch (...) {
      check().flush();  // from this rank the others hear that the calls differ
      throw;
    }
  }
  std::string describe() const override { return describe_call(descriptor_); }
  std::vector<int> missing() const override {
    std::vector<int> members;
    if (!has_begun_) return members;
    if (!has_matched_) check().append_missing(members);
    work_.append_missing(members);
    return members;
  }
  std::vector<int> awaited_members() const override { return members_holding_up(); }
  bool has_made_call(int member) const override {
    return has_matched_ || check().arrival_report().is_present(member);
  }
  std::string own_part() const override { return std::string(kAwaitsRoom); }

 private:
  FingerprintCheck& check() const { return *pipeline_.stream().check; }

  void begin() {
    has_begun_ = true;
    pipeline_.begin();
    check().begin(descriptor_);
  }
  // The check's message goes with the first one of the data.
  Progress advance_both() {
    if (!has_begun_) begin();
    const bool has_moved = advance_check();
    const Progress progress = pipeline_.advance(work_, has_matched_);
    if (progress != Progress::pending) return progress;
    if (has_moved) return Progress::advanced;
    check().arrival_report().answer_if_waiting();
    return Progress::pending;
  }
  bool advance_check() {
    if (has_matched_) return false;
    const bool has_moved = check().advance(note());
    if (check().is_refused()) throw mismatch_error(*abort_state(), check().calls());
    has_matched_ = check().is_reached();
    if (has_matched_) work_.on_match();
    return has_moved || has_matched_;
  }

  RmaPipeline pipeline_;
  Descriptor descriptor_;
  Work work_;
  bool has_begun_ = false;
  bool has_matched_ = false;
};

/// What both exchanges of messages have in common.
class RmaExchangeWork : public RmaWork {
 protected:
  RmaExchangeWork(const RmaPipeline& pipeline, const Descriptor& descriptor, std::size_t share)
      : RmaWork(pipeline), descriptor_(descriptor), share_(share) {}

  int rank() const { return stream().rank(); }
  int size() const { return stream().size(); }
  const SumTree& tree() const { return stream().tree; }
  const Descriptor& descriptor() const { return descriptor_; }
  std::size_t share() const { return share_; }
  std::uint64_t count_of(int member) const { return stream().check->count_of(member); }
  void cut(std::size_t longest) { num_blocks = (longest + share_ - 1) / share_; }

 private:
  Descriptor descriptor_;
  std::size_t share_;
};

std::size_t share_of(const RmaStream& stream, SentParts parts) {
  const AreaSizes& available = stream.layout.areas;
  const auto num_members = static_cast<std::size_t>(stream.size());
  const std::size_t work = available.work / (parts == SentParts::same ? 1 : num_members);
  return std::min(work, available.landing / num_members) / kCacheLineBytes * kCacheLineBytes;
}

/// Exchange of messages by all with all, see exchange.hpp.
class RmaExchange : public RmaExchangeWork {
 public:
  const Schedule& schedule_of(std::uint64_t index) const final {
    return schedules_[index % schedules_.size()];
  }

 protected:
  RmaExchange(const RmaPipeline& pipeline, const Descriptor& descriptor, SentParts parts)
      : RmaExchangeWork(pipeline, descriptor, share_of(pipeline.stream(), parts)),
        parts_(parts),
        schedules_(stream().layout.depth,
                   exchange_schedule(rank(), size(), share(), parts, stream().areas())) {}

  std::byte* outgoing(int member, std::uint64_t index) const {
    const int part = parts_ == SentParts::same ? 0 : member;
    return slot(index) + stream().areas().work + static_cast<std::size_t>(part) * share();
  }
  void send(int member, std::uint64_t index, std::size_t num_bytes) {
    if (member == rank()) return;
    const int distance = (member - rank() + size()) % size();
    std::vector<Message>& sends = schedules_[index % schedules_.size()].rounds.front().sends;
    sends[static_cast<std::size_t>(distance) - 1].num_bytes = num_bytes;
  }
  const std::byte* incoming(int member, std::uint64_t index) const {
    if (member == rank()) return outgoing(member, index);
    return slot(index) + stream().areas().landing + static_cast<std::size_t>(member) * share();
  }

 private:
  SentParts parts_;
  std::vector<Schedule> schedules_;  // one per block under way
};

/// Exchange of messages from the root to all.
class RmaTree : public RmaExchangeWork {
 public:
  const Schedule& schedule_of(std::uint64_t index) const final {
    return index + 1 == num_blocks ? last_ : full_;
  }

 protected:
  RmaTree(const RmaPipeline& pipeline, const Descriptor& descriptor, SentParts)
      : RmaExchangeWork(pipeline, descriptor, pipeline.stream().layout.areas.work) {}

  void cut(std::size_t num_bytes) {
    RmaExchangeWork::cut(std::max<std::size_t>(num_bytes, 1));
    const auto schedule = [&](std::size_t block_bytes) {
      return broadcast_schedule(rank(), size(), static_cast<int>(descriptor().root), block_bytes,
                                stream().areas());
    };
    if (num_blocks > 1) full_ = schedule(share());
    last_ = schedule(num_bytes - (num_blocks - 1) * share());
  }
  std::byte* outgoing(int /*member*/, std::uint64_t index) const {
    return slot(index) + stream().areas().work;
  }
  const std::byte* incoming(int member, std::uint64_t index) const {
    return outgoing(member, index);
  }

 private:
  Schedule full_;  // of all blocks but the last
  Schedule last_;
};

/// Barrier by dissemination: the fingerprint check that every call begins with, and
/// nothing else. ceil(log2 n) rounds, one message of 16 bytes per rank in each.
class RmaBarrier final : public RmaWork {
 public:
  RmaBarrier(const RmaPipeline& pipeline, const Descriptor&, const CallArrays&)
      : RmaWork(pipeline) {}
  const Schedule& schedule_of(std::uint64_t) const override { return nothing_; }

 private:
  Schedule nothing_;
};

/// See make_exchange().
struct RmaWorld {
  template <typename Work>
  using Call = RmaCall<Work>;
  using Stream = RmaStream;
  using Exchange = RmaExchange;
  using Barrier = RmaBarrier;
  using Tree = RmaTree;
};

std::shared_ptr<RmaStream> make_stream(const OperationContext& context,
                                       const StreamMemory& memory) {
  const MemoryNeeds check = FingerprintCheck::memory_needs(memory.segment->size());
  RmaLayout layout = stream_layout(context.tree, memory.slot_bytes);
  layout.offset = memory.offset + check.num_bytes;
  layout.notification = memory.notification + check.num_notifications;
  return std::make_shared<RmaStream>(RmaStream{
      .abort_state = context.abort_state,
      .tree = context.tree,
      .check =
          std::make_shared<FingerprintCheck>(memory.segment, memory.offset, memory.notification),
      .segment = memory.segment,
      .layout = layout});
}

// The chunk of a rank is what fills a slot of the exchange, and as many blocks are under way.
SlotLayout layout_on_host(const HostLayout& hosts, std::size_t slot_bytes) {
  return {.slot_bytes = static_cast<std::size_t>(hosts.members_per_host) * slot_bytes,
          .depth = stream_layout(hosts.between_hosts, slot_bytes).depth};
}

}  // namespace

MemoryNeeds RmaCollectives::memory_needs(const SumTree& tree, std::size_t slot_bytes) {
  MemoryNeeds needs = FingerprintCheck::memory_needs(tree.size());
  needs.num_bytes += stream_layout(tree, slot_bytes).num_bytes();
  needs.num_notifications += max_num_rounds(tree.size());
  return needs;
}

MemoryNeeds RmaCollectives::needs_on_host(const HostLayout& hosts, std::size_t slot_bytes) {
  return {layout_on_host(hosts, slot_bytes).num_bytes(), 0};
}

MemoryNeeds RmaCollectives::needs_between_hosts(const HostLayout& hosts, std::size_t slot_bytes) {
  return {stream_layout(hosts.between_hosts, slot_bytes).num_bytes(),
          max_num_rounds(hosts.num_hosts)};
}

RmaCollectives::RmaCollectives(OperationContext context, const StreamMemory& memory,
                               const HostLayout& hosts)
    : context_(std::move(context)), stream_(make_stream(context_, memory)) {
  if (!memory.between_hosts) return;
  host_.hosts = hosts;
  host_.ring = std::make_shared<SlotRing>(memory.on_host, layout_on_host(hosts, memory.slot_bytes));
  between_hosts_ = std::make_shared<RmaStream>(
      RmaStream{.abort_state = context_.abort_state,
                .tree = hosts.between_hosts,
                .check = stream_->check,
                .segment = memory.between_hosts,
                .layout = stream_layout(hosts.between_hosts, memory.slot_bytes)});
}

Collectives::Made RmaCollectives::make(const Descriptor& descriptor, CallArrays arrays) {
  if (descriptor.kind != CollectiveKind::allreduce) {
    return make_exchange<RmaWorld>(stream_, descriptor, std::move(arrays));
  }
  const AllreduceCase wanted{
      .num_bytes = descriptor.num_bytes(),
      .dtype = descriptor.dtype,
      .topology = between_hosts_ ? Topology::hierarchical : Topology::put_only,
      .num_members = stream_->size(),
      .num_hosts = host_.hosts.num_hosts};
  const MessagePattern pattern =
      pattern_of(choose_allreduce(wanted, context_.requested, *context_.abort_state));
  if (!between_hosts_) {
    return std::make_shared<RmaCall<RmaAllreduce>>(stream_, descriptor, pattern, arrays);
  }
  return std::make_shared<RmaCall<HierarchicalAllreduce>>(between_hosts_, descriptor, host_,
                                                          pattern, arrays);
}

}  // namespace tnt::comm
