#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/rma/arrival_report.hpp"
#include "tnt/comm/collective/rma/fingerprint_exchange.hpp"

namespace tnt::comm {

/// Makes sure that all members of a group make the same calls, in the same
/// order: a fingerprint exchange of every call, and only if that finds a difference, a
/// second phase in which all tell all what they call.
class FingerprintCheck {
 public:
  static std::size_t num_bytes(int num_members);
  static std::size_t num_notifications(int num_members);

  FingerprintCheck(std::shared_ptr<Segment> segment, std::size_t offset, NotificationId first_id);

  /// The next call: fills in its number.
  void begin(Descriptor& descriptor);

  /// Does what can be done without waiting; true if that was anything. `note` is
  /// the call's.
  bool advance(const CallNote& note);

  /// All have made the call, and the same one.
  bool is_reached() const { return exchange_.is_complete() && exchange_.is_uniform(); }

  /// The calls differ, and it is known how.
  bool is_refused() const { return is_refused_; }
  /// When refused: what each member calls.
  std::vector<MadeCall> calls() const;

  /// When reached, where members may contribute any count: what each member contributes.
  std::uint64_t count_of(int member) const { return exchange_.count_of(member); }

  /// Appends the members whose message is waited for.
  void append_missing(std::vector<int>& members) const;

  ArrivalReport& arrival_report() { return arrival_report_; }
  const ArrivalReport& arrival_report() const { return arrival_report_; }

 private:
  bool is_different() const { return exchange_.is_complete() && !exchange_.is_uniform(); }
  std::size_t entry_offset(int member) const;
  bool has_told(int member) const;
  bool tell_all(std::string_view note);
  bool have_all_told() const;

  std::shared_ptr<Segment> segment_;
  std::size_t table_offset_;
  NotificationId table_id_;
  FingerprintExchange exchange_;
  ArrivalReport arrival_report_;
  std::uint64_t num_calls_ = 0;
  int num_told_ = 0;
  bool is_refused_ = false;
};

}  // namespace tnt::comm
