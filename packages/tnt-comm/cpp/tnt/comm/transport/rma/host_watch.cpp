#include "tnt/comm/transport/rma/host_watch.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

HostProbe::Answer meaning_of(int error) {
  switch (error) {
    case 0:
    case ECONNREFUSED:
    case ECONNRESET:
      return HostProbe::Answer::given;
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ETIMEDOUT:
      return HostProbe::Answer::none;
    default:
      return HostProbe::Answer::moot;
  }
}

}  // namespace

void TcpHostProbe::ask() {
  connection_.close();
  answer_ = Answer::none;
  connection_ = TcpSocket::connecting_to(address_);
  if (connection_.descriptor() < 0) answer_ = meaning_of(errno);
}

HostProbe::Answer TcpHostProbe::answer() {
  pollfd connection{connection_.descriptor(), POLLOUT, 0};
  if (connection.fd >= 0 && ::poll(&connection, 1, 0) > 0) {
    answer_ = meaning_of(error_of_connection(connection.fd));
    connection_.close();
  }
  return answer_;
}

namespace {

constexpr auto kProbeInterval = std::chrono::milliseconds(100);
constexpr auto kQuestionInterval = std::chrono::seconds(1);

// A process that looks later than this did not get to run itself, and does not know
// yet what has come meanwhile.
constexpr auto kLateLook = std::chrono::seconds(1);

// Networks repair themselves at times; several questions must fit into half of it.
constexpr double kShortestLimitS = 3.0;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

HostWatch::HostWatch(std::unique_ptr<HostProbe> probe, double longest_silence_s)
    : probe_(std::move(probe)), longest_silence_s_(longest_silence_s) {
  probe_->ask();
}

bool HostWatch::has_ever_answered() {
  if (!has_ever_answered_) has_ever_answered_ = probe_->answer() == HostProbe::Answer::given;
  return has_ever_answered_;
}

bool HostWatch::is_gone(double silence_s, Clock::time_point now) {
  const bool is_late = now - last_look_ > kLateLook;
  last_look_ = now;
  if (!has_ever_answered()) return false;
  const double half_s = longest_silence_s_ / 2;
  if (is_late || silence_s < half_s) {
    unanswered_since_.reset();
    return false;
  }
  if (probe_->answer() != HostProbe::Answer::none) unanswered_since_.reset();
  if (now >= next_question_) {
    probe_->ask();
    next_question_ = now + kQuestionInterval;
    if (!unanswered_since_) unanswered_since_ = now;
  }
  return silence_s >= longest_silence_s_ && unanswered_since_ &&
         seconds_between(*unanswered_since_, now) >= half_s;
}

HostWatches::HostWatches(RmaDevice& device, PeerTable& peers, const std::vector<int>& nodes,
                         double stall_s)
    : peers_(peers) {
  std::map<int, std::vector<int>> ranks_of;
  for (int rank = 0; rank < device.size(); ++rank) {
    ranks_of[nodes[static_cast<std::size_t>(rank)]].push_back(rank);
  }
  ranks_of.erase(nodes[static_cast<std::size_t>(device.rank())]);
  for (auto& [node, ranks] : ranks_of) {
    auto probe = device.probe_of_host(ranks.front());
    if (!probe) continue;
    hosts_.push_back(
        {HostWatch(std::move(probe), std::max(stall_s, kShortestLimitS)), std::move(ranks)});
  }
}

void HostWatches::look() {
  const Clock::time_point now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + kProbeInterval;
  for (Host& host : hosts_) look_at(host, now);
}

void HostWatches::look_at(Host& host, Clock::time_point now) {
  constexpr double kNobody = std::numeric_limits<double>::infinity();
  double silence_s = kNobody;
  for (const int rank : host.ranks) {
    if (peers_.is_reachable(rank)) {
      silence_s = std::min(silence_s, peers_.status_of(rank).heartbeat_age_s);
    }
  }
  if (silence_s == kNobody || !host.watch.is_gone(silence_s, now)) return;
  for (const int rank : host.ranks) {
    peers_.vanished(rank, text("its host ", host.watch.host(), " was last heard of ", silence_s,
                               " s ago and does not answer connections: the host is down, or the"
                               " link to it. Look at that host, at this one's network (ip link,"
                               " ping), and at the switches between"));
  }
}

}  // namespace tnt::comm
