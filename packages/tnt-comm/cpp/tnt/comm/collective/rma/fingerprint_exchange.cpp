#include "tnt/comm/collective/rma/fingerprint_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tnt::comm {
namespace {

// Sources and targets of different rounds share no cache line.
constexpr std::size_t kRecordBytes = 64;
constexpr std::size_t kCalls = 2;

std::size_t bytes_of_call(int num_members) {
  const std::size_t counts = static_cast<std::size_t>(num_members) * sizeof(std::uint64_t);
  return 2 * FingerprintExchange::num_rounds(num_members) * kRecordBytes +
         (counts + kRecordBytes - 1) / kRecordBytes * kRecordBytes;
}

}  // namespace

std::size_t FingerprintExchange::num_rounds(int num_members) {
  std::size_t rounds = 0;
  while ((1 << rounds) < num_members) ++rounds;
  return rounds;
}

std::size_t FingerprintExchange::num_bytes(int num_members) {
  return kCalls * bytes_of_call(num_members);
}

FingerprintExchange::FingerprintExchange(std::shared_ptr<Segment> segment, std::size_t offset,
                                         NotificationId first_id)
    : segment_(std::move(segment)),
      offset_(offset),
      id_(first_id),
      rank_(segment_->rank()),
      size_(segment_->size()),
      num_rounds_(num_rounds(size_)),
      round_(num_rounds_) {}

void FingerprintExchange::begin(std::uint64_t call, const Descriptor& descriptor) {
  call_ = call;
  fingerprint_ = descriptor.fingerprint();
  shares_counts_ = traits_of(descriptor.kind).takes_any_count;
  is_uniform_ = true;
  is_sent_ = false;
  round_ = 0;
  std::memcpy(segment_->local() + count_offset(rank_), &descriptor.count, sizeof descriptor.count);
}

bool FingerprintExchange::advance() {
  constexpr std::size_t kMostMessages = 4;  // record, counts in two blocks, notification
  bool has_moved = false;
  while (!is_complete()) {
    if (!is_sent_) {
      if (!segment_->has_room(partner(distance()), kMostMessages)) return has_moved;
      send();
      is_sent_ = has_moved = true;
    }
    if (!has_arrived()) return has_moved;
    receive();
    ++round_;
    is_sent_ = false;
    has_moved = true;
  }
  return has_moved;
}

void FingerprintExchange::send() {
  const int to = partner(distance());
  const Record record{fingerprint_, is_uniform_ ? 1U : 0U};
  const std::size_t source = record_offset(round_, false);
  std::memcpy(segment_->local() + source, &record, sizeof record);
  segment_->put(to, record_offset(round_, true), source, sizeof record);
  if (shares_counts_) send_counts(to);
  segment_->notify(to, id_ + round_, call_ + 1);
}

// Before round k a rank knows the 2^k counts up to its own. The last round's
// receiver lacks fewer.
void FingerprintExchange::send_counts(int to) {
  const int num_counts = std::min(distance(), size_ - distance());
  const int first = partner(1 - num_counts);
  const int until_end = std::min(num_counts, size_ - first);
  const auto put = [&](int begin, int count) {
    if (count == 0) return;
    segment_->put(to, count_offset(begin), count_offset(begin),
                  static_cast<std::size_t>(count) * sizeof(std::uint64_t));
  };
  put(first, until_end);
  put(0, num_counts - until_end);
}

bool FingerprintExchange::has_arrived() const {
  return segment_->poll(partner(-distance()), id_ + round_) > call_;
}

void FingerprintExchange::receive() {
  Record record;
  std::memcpy(&record, segment_->local() + record_offset(round_, true), sizeof record);
  is_uniform_ = is_uniform_ && record.is_uniform != 0 && record.fingerprint == fingerprint_;
}

std::uint64_t FingerprintExchange::count_of(int member) const {
  std::uint64_t count = 0;
  std::memcpy(&count, segment_->local() + count_offset(member), sizeof count);
  return count;
}

void FingerprintExchange::append_missing(std::vector<int>& members) const {
  if (!is_complete() && !has_arrived()) members.push_back(partner(-distance()));
}

std::size_t FingerprintExchange::begin_of_call() const {
  return offset_ + call_ % kCalls * bytes_of_call(size_);
}

std::size_t FingerprintExchange::record_offset(std::size_t round, bool is_incoming) const {
  return begin_of_call() + (2 * round + (is_incoming ? 1U : 0U)) * kRecordBytes;
}

std::size_t FingerprintExchange::count_offset(int member) const {
  return begin_of_call() + 2 * num_rounds_ * kRecordBytes +
         static_cast<std::size_t>(member) * sizeof(std::uint64_t);
}

}  // namespace tnt::comm
