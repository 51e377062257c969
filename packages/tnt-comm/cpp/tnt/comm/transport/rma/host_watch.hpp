#pragma once

#include <netinet/in.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/transport/rma/peer_table.hpp"
#include "tnt/comm/transport/rma/rma_device.hpp"
#include "tnt/comm/transport/rma/tcp_socket.hpp"

namespace tnt::comm {

/// Begins a connection to a port on which nobody listens: a host that is there
/// refuses it at once. On one where a process listens the answer would fail to come
/// as soon as that process is stopped and enough connections wait for it.
class TcpHostProbe final : public HostProbe {
 public:
  TcpHostProbe(std::string host, const sockaddr_in& address)
      : host_(std::move(host)), address_(address) {}

  std::string host() const override { return host_; }
  void ask() override;
  Answer answer() override;

 private:
  std::string host_;
  sockaddr_in address_;
  TcpSocket connection_;
  Answer answer_ = Answer::none;
};

/// Tells a host that has vanished from one whose processes are stopped, swapped out
/// or throttled. Neither is heard of; but the kernel of the latter answers probes.
///
/// A host counts as gone when it has been silent for `longest_silence_s`, and all
/// probes in the second half of that time were unanswered. Only if it answered the
/// first probe, at the start: firewalls may drop them.
class HostWatch {
 public:
  HostWatch(std::unique_ptr<HostProbe> probe, double longest_silence_s);

  /// To be called several times per second. `silence_s`: since something was heard of
  /// any rank of the host.
  bool is_gone(double silence_s, Clock::time_point now);

  std::string host() const { return probe_->host(); }

 private:
  bool has_ever_answered();

  std::unique_ptr<HostProbe> probe_;
  double longest_silence_s_;
  bool has_ever_answered_ = false;
  Clock::time_point last_look_{};
  Clock::time_point next_question_{};
  std::optional<Clock::time_point> unanswered_since_;
};

/// Watches all hosts but this one, and marks the ranks of those that are gone.
class HostWatches {
 public:
  /// `nodes`: of all ranks. `stall_s`: after which a wait counts as a stall.
  HostWatches(RmaDevice& device, PeerTable& peers, const std::vector<int>& nodes, double stall_s);

  /// To be called often; looks several times per second.
  void look();

 private:
  struct Host {
    HostWatch watch;
    std::vector<int> ranks;
  };

  void look_at(Host& host, Clock::time_point now);

  PeerTable& peers_;
  std::vector<Host> hosts_;
  Clock::time_point next_look_{};
};

}  // namespace tnt::comm
