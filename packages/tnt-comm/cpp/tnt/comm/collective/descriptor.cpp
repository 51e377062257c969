#include "tnt/comm/collective/descriptor.hpp"

#include <algorithm>
#include <map>

#include "tnt/comm/collective/abort_state.hpp"

namespace tnt::comm {
namespace {

constexpr std::string_view kEllipsis = "...";
// Two of them, with quotes and " from ", fit into a note; nothing has all three.
constexpr std::size_t kMaxPartBytes = 56;

std::string without_end(std::string_view label) {
  if (label.size() <= kMaxPartBytes) return std::string(label);
  return text(first_bytes(label, kMaxPartBytes - kEllipsis.size()), kEllipsis);
}

std::string without_begin(std::string_view caller) {
  if (caller.size() <= kMaxPartBytes) return std::string(caller);
  return text(kEllipsis, last_bytes(caller, kMaxPartBytes - kEllipsis.size()));
}

constexpr std::array<std::string_view, 6> kNames = {
    "auto", "one_shot", "two_shot", "recursive_doubling", "halving_doubling", "pipelined"};

}  // namespace

std::uint64_t fingerprint_of(std::string_view label) {
  if (label.empty()) return 0;
  std::uint64_t fingerprint = kEmptyFingerprint;
  for (const char character : label) {
    fingerprint = with_byte(fingerprint, static_cast<unsigned char>(character));
  }
  return fingerprint == 0 ? 1 : fingerprint;
}

std::string note_of(const CallLabel& label) {
  const std::string caller =
      label.must_find_caller() ? label.find_caller() : std::string(label.caller);
  std::string note;
  if (!label.created.empty()) note += text(" of ", without_end(label.created));
  if (!label.label.empty()) note += text(" '", without_end(label.label), "'");
  if (!caller.empty()) note += text(" from ", without_begin(caller));
  return note;
}

std::string_view name_of(AllreduceAlgorithm algorithm) {
  const auto index = static_cast<std::size_t>(algorithm);
  return index < kNames.size() ? kNames[index] : "unknown";  // what another rank sends may be
}

AllreduceAlgorithm parse_allreduce_algorithm(const std::string& name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<AllreduceAlgorithm>(found - kNames.begin());
  const auto name_at = [](std::size_t i) { return text(kNames[i]); };
  throw UsageError("Environment variable TNT_ALLREDUCE_ALGORITHM must be one of ",
                   listed(kNames.size(), kNames.size(), name_at),
                   ". Received: TNT_ALLREDUCE_ALGORITHM='", name, "'. Correct it or unset it.");
}

bool Descriptor::matches(const Descriptor& other) const {
  return call_index == other.call_index && kind == other.kind && dtype == other.dtype &&
         op == other.op && root == other.root && algorithm == other.algorithm &&
         shape == other.shape && label == other.label &&
         (traits_of(kind).takes_any_count() || count == other.count);
}

std::uint64_t Descriptor::fingerprint() const {
  std::uint64_t fingerprint = kEmptyFingerprint;
  const std::uint64_t compared_count = traits_of(kind).takes_any_count() ? 0 : count;
  for (const std::uint64_t word :
       {call_index, static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(dtype),
        static_cast<std::uint64_t>(op), static_cast<std::uint64_t>(root),
        static_cast<std::uint64_t>(algorithm), compared_count, shape, label}) {
    fingerprint = with_word(fingerprint, word);
  }
  return fingerprint;
}

std::string Descriptor::describe() const {
  const CollectiveTraits& traits = traits_of(kind);
  if (kind == CollectiveKind::creation) return std::string(traits.name);  // the note says of what
  if (!traits.has_data) return text(traits.name, "()");
  std::string result = text(traits.name, "(", comm::name_of(dtype), ", ", count, " elements");
  if (traits.takes_any_count() && shape != 0) result += " in rows";
  result += describe_shape(shape);
  if (traits.reduces) result += text(", ", comm::name_of(op));
  if (traits.has_root) result += text(", root ", root);
  if (algorithm != AllreduceAlgorithm::automatic) {
    result += text(", TNT_ALLREDUCE_ALGORITHM=", comm::name_of(algorithm));
  }
  return result + ")";
}

Error mismatch_error(const AbortState& abort_state, const std::vector<MadeCall>& calls) {
  std::vector<std::string> titles;  // in the order of the ranks that make the calls first
  std::map<std::string, std::vector<int>> callers;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    const std::string title = calls[member].descriptor.describe() + calls[member].note;
    if (callers.count(title) == 0) titles.push_back(title);
    callers[title].push_back(abort_state.world_rank_of(static_cast<int>(member)));
  }
  std::string all;
  int other = Error::kNoRank;  // the first one that makes another call than this rank
  for (const std::string& title : titles) {
    const std::vector<int>& ranks = callers[title];
    const bool is_own = std::ranges::count(ranks, abort_state.world_rank()) > 0;
    if (other == Error::kNoRank && !is_own) other = ranks.front();
    all += text(all.empty() ? "" : "; ", names_of_ranks(ranks), " called ", title);
  }
  return Error(ErrorKind::mismatch, "Collective call ", calls.front().descriptor.call_index,
               " of group '", abort_state.group_name(), "' differs between ranks: ", all,
               ". All members must make the same calls with the same dtypes, sizes and"
               " operations, in the same order.")
      .caused_by(other);
}

}  // namespace tnt::comm
