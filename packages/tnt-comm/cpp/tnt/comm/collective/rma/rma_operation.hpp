#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/rma/rma_pipeline.hpp"

namespace tnt::comm {

/// A call of a collective among ranks that can only put into each other's memory.
///
/// All ranks compare what they think they are doing while the first blocks are
/// under way. Nothing is copied out before they have agreed, and no operation is
/// complete: so when a rank has completed a call, all have begun it, and hence
/// completed the one before.
///
/// That makes it safe to use the slots for different collectives in turn.
/// Data sent before the fingerprint check goes to landing areas, for the first `depth`
/// blocks: RmaStream's argument covers them where the call before had that
/// structure too, and a broadcast uses no landing area. A work that
/// writes elsewhere, or needs to know the others' counts, waits for the
/// fingerprint check, after which all slots are free everywhere.
class RmaOperation : public CollectiveOperation {
 protected:
  /// `work` belongs to the subclass.
  RmaOperation(std::shared_ptr<RmaStream> stream, const Descriptor& descriptor, RmaWork& work);

  const RmaPipeline& pipeline() const { return pipeline_; }

  Progress do_advance() final;
  std::string describe() const final;
  std::vector<int> missing() const final;
  std::vector<int> awaited_members() const final { return members_holding_up(); }
  bool has_made_call(int member) const final;
  std::string own_part() const final { return std::string(kAwaitsRoom); }

 private:
  FingerprintCheck& check() const { return *pipeline_.stream().check; }
  void begin();
  bool advance_check();

  RmaPipeline pipeline_;
  Descriptor descriptor_;
  RmaWork& work_;
  bool has_begun_ = false;
  bool has_matched_ = false;
};

/// A call that does this work.
template <typename Work>
class RmaCall final : public RmaOperation {
 public:
  template <typename... Arguments>
  RmaCall(std::shared_ptr<RmaStream> stream, const Descriptor& descriptor, Arguments&&... arguments)
      : RmaOperation(std::move(stream), descriptor, work_),
        work_(pipeline(), descriptor, std::forward<Arguments>(arguments)...) {}

 private:
  Work work_;
};

}  // namespace tnt::comm
