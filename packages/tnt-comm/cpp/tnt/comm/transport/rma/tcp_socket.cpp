#include "tnt/comm/transport/rma/tcp_socket.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tnt::comm {
namespace {

TcpSocket open_socket(const SocketAddress& address) {
  return TcpSocket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Keeps the reason, which closing may overwrite.
void give_up(TcpSocket& socket) {
  const int error = errno;
  socket.close();
  errno = error;
}

}  // namespace

TcpSocket::TcpSocket(TcpSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

TcpSocket& TcpSocket::operator=(TcpSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void TcpSocket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

TcpSocket TcpSocket::bound_to(const SocketAddress& address) {
  TcpSocket socket = open_socket(address);
  if (!socket.is_open()) return socket;
  const int is_on = 1;
  ::setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof is_on);
  if (::bind(socket.descriptor_, address.get(), address.num_bytes()) != 0) give_up(socket);
  return socket;
}

TcpSocket TcpSocket::connecting_to(const SocketAddress& address) {
  TcpSocket socket = open_socket(address);
  if (!socket.is_open()) return socket;
  const int status = ::connect(socket.descriptor_, address.get(), address.num_bytes());
  if (status != 0 && errno != EINPROGRESS) give_up(socket);
  return socket;
}

TcpSocket TcpSocket::accept() const {
  return TcpSocket(::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void TcpSocket::send_without_delay() const {
  const int is_on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &is_on, sizeof is_on);
}

int error_of_connection(int descriptor) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace tnt::comm
