#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tnt/comm/transport/rma/sockets.hpp"

namespace tnt::comm::tests {

/// A port of this host that was free a moment ago.
class FreePort {
 public:
  FreePort() : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const int is_on = 1;
    ::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof is_on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    number = SocketAddress::of(descriptor_, ::getsockname).port();
    ::close(descriptor_);
  }
  int number;

 private:
  int descriptor_;
};

}  // namespace tnt::comm::tests
