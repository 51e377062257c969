#include "tnt/comm/base/start_wait.hpp"

#include <algorithm>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

constexpr double kWatchedReportS = 30.0;
constexpr double kNeverS = 1e9;
constexpr std::size_t kMostPlaces = 4;

struct StartWait {
  PlaceOfRank place_of;  // empty if nobody watches
  std::optional<double> timeout_s;
};

// Never destroyed: the function is Python's, which may have ended by then.
StartWait& start_wait() {
  static auto& wait = *new StartWait;
  return wait;
}

}  // namespace

void set_watched(PlaceOfRank place_of) {
  start_wait().place_of = std::move(place_of);
}

void set_start_timeout(std::optional<double> timeout_s) {
  start_wait().timeout_s = timeout_s;
}

double start_timeout_s(double usual_s) {
  return start_wait().timeout_s.value_or(start_wait().place_of ? kNeverS : usual_s);
}

double start_report_s(double usual_s) {
  return start_wait().place_of ? std::min(usual_s, kWatchedReportS) : usual_s;
}

std::string places_of(const std::vector<int>& ranks) {
  std::string result;
  std::size_t num_places = 0;
  for (const int rank : ranks) {
    if (!start_wait().place_of || num_places == kMostPlaces) break;
    const std::string place = start_wait().place_of(rank);
    if (place.empty()) continue;
    result += text(" Rank ", rank, " is at ", place, ".");
    ++num_places;
  }
  return result;
}

std::string remedy_for_absent_ranks(const char* usual) {
  if (!start_wait().place_of) return usual;
  const auto& limit_s = start_wait().timeout_s;
  return text("This is no error as long as their processes run: the wait goes on ",
              limit_s ? text("for ", *limit_s, " s") : text("until they come"), ".");
}

}  // namespace tnt::comm
