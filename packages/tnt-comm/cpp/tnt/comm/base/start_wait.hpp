#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/base/array.hpp"

namespace tnt::comm {

/// The line of the user's script in which a rank is, such as "train.py:31"; empty if it is not
/// known.
using PlaceOfRank = std::function<std::string(int rank)>;

/// From now on a launcher, or the ranks of a start by something else, watch over this process: it
/// ends when another rank has ended. So a rank that has not joined lives, and is waited for however
/// long that takes. Before joining.
TNT_COMM_EXPORT void set_watched(PlaceOfRank place_of);

/// How long the job may take to be joined, if somebody has said so. Before joining.
TNT_COMM_EXPORT void set_start_timeout(std::optional<double> timeout_s);

/// How long this process waits for others to join, where the environment says `usual_s`.
double start_timeout_s(double usual_s);

/// When it reports of that wait, where the environment says `usual_s`.
double start_report_s(double usual_s);

/// Sentences about where ranks are that have not joined, as far as that is known.
std::string places_of(const std::vector<int>& ranks);

/// What to do about ranks that have not joined: `usual`, unless somebody watches over them.
std::string remedy_for_absent_ranks(const char* usual);

}  // namespace tnt::comm
