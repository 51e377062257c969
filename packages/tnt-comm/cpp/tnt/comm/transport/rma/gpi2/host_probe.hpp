#pragma once

#include <netinet/in.h>

#include <string>
#include <utility>

#include "tnt/comm/transport/rma/gpi2/tcp_socket.hpp"

namespace tnt::comm {

/// Asks whether another host is there: a question that its kernel answers whatever
/// its processes do.
class HostProbe {
 public:
  enum class Answer {
    none,   ///< not yet, or never
    given,  ///< the host is there
    moot,   ///< nobody could be asked: no descriptors left, say
  };

  virtual ~HostProbe() = default;

  /// Name or address, for messages.
  virtual std::string host() const = 0;

  /// Asks, and does not wait. The question before counts no more.
  virtual void ask() = 0;

  /// To the last question.
  virtual Answer answer() = 0;
};

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

}  // namespace tnt::comm
