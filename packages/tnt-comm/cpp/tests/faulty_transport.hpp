#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm::tests {

/// Which segment a rank cannot create, counted from its next one.
struct SegmentFault {
  enum class When { before_others_know, when_others_have_theirs };
  int index = 0;
  When when = When::before_others_know;
};

/// A transport with which the creation of segments fails on one rank when a test says so.
class FaultyTransport final : public Transport {
 public:
  explicit FaultyTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  /// For this thread, which is a rank; says whether the one before has come to pass.
  static bool set_fault(std::optional<SegmentFault> fault) {
    const bool is_due = std::exchange(fault_, fault).has_value();
    return !is_due;
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int node_of(int rank) const override { return inner_->node_of(rank); }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  bool is_readable_among(const std::vector<int>& members) const override {
    return inner_->is_readable_among(members);
  }
  std::unique_ptr<Segment> create_segment(const SegmentRequest& request,
                                          const Deadline& deadline) override {
    if (!fault_ || fault_->index-- > 0) return inner_->create_segment(request, deadline);
    const SegmentFault fault = *std::exchange(fault_, std::nullopt);
    if (fault.when == SegmentFault::When::when_others_have_theirs) {
      inner_->create_segment(request, deadline);
    }
    throw Error(ErrorKind::comm, "out of memory on purpose");
  }
  Doorbell& doorbell() override { return inner_->doorbell(); }
  PeerStatus status_of(int rank) const override { return inner_->status_of(rank); }
  void beat() override { inner_->beat(); }
  void leave(PeerState state, const std::string& reason) override { inner_->leave(state, reason); }

 private:
  static inline thread_local std::optional<SegmentFault> fault_;

  std::unique_ptr<Transport> inner_;
};

}  // namespace tnt::comm::tests
