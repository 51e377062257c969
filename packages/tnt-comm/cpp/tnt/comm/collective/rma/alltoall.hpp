#pragma once

#include <memory>
#include <vector>

#include "tnt/comm/collective/rma/parts_operation.hpp"

namespace tnt::comm {

/// Alltoall: rank r gets part r of the arrays of all members, in member order;
/// and scatter, where the root alone has an array and the messages of the
/// others are empty. See RmaPartsOperation.
class RmaAlltoall final : public RmaPartsOperation {
 public:
  /// `out` receives the parts one behind the other and must not overlap `in`.
  RmaAlltoall(std::shared_ptr<AbortState> abort_state,
              std::shared_ptr<FingerprintCheck> fingerprint_check,
              std::shared_ptr<RmaStream> stream, const Descriptor& descriptor,
              const std::vector<Range>& parts, const void* in, void* out);

 protected:
  void copy_in(std::uint64_t index) override;
  bool sends() const override { return descriptor().is_root(channel().rank()); }
  void copy_out(std::uint64_t index) override;

 private:
  std::size_t offset_of(int member) const;  // in the landing area; this rank's own in the other

  std::byte* out_;
};

}  // namespace tnt::comm
