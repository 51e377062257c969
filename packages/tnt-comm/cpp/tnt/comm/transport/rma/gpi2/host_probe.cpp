#include "tnt/comm/transport/rma/gpi2/host_probe.hpp"

#include <poll.h>

#include <cerrno>

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

}  // namespace tnt::comm
