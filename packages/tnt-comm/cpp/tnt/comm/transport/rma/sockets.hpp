#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tnt::comm {

/// An address of IPv4 or IPv6, with a port.
class SocketAddress {
 public:
  SocketAddress() = default;

  SocketAddress(const sockaddr* address, socklen_t num_bytes) : num_bytes_(num_bytes) {
    std::memcpy(&storage_, address, std::min<std::size_t>(num_bytes, sizeof storage_));
  }

  /// That of this end of a connection (::getsockname), or of the other one (::getpeername).
  using AddressOf = int (*)(int, sockaddr*, socklen_t*);

  static SocketAddress of(int descriptor, AddressOf function) {
    SocketAddress result;
    result.num_bytes_ = sizeof result.storage_;
    function(descriptor, reinterpret_cast<sockaddr*>(&result.storage_), &result.num_bytes_);
    return result;
  }

  /// A port on all addresses of this host.
  static SocketAddress any_of_ipv4(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    return SocketAddress(reinterpret_cast<const sockaddr*>(&address), sizeof address)
        .with_port(port);
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t num_bytes() const { return num_bytes_; }
  int family() const { return storage_.ss_family; }

  bool is_loopback() const {
    if (family() == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
      return (ntohl(address->sin_addr.s_addr) >> 24) == 127;
    }
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
    return IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
  }

  /// Whether it is a link-local one, which each interface may have, without its interface.
  bool lacks_interface() const {
    if (family() != AF_INET6) return false;
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
    return IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) && address->sin6_scope_id == 0;
  }

  /// Without the port, such as "10.0.0.1" or "fe80::1".
  std::string host() const {
    std::array<char, INET6_ADDRSTRLEN> letters{};
    const void* bytes =
        family() == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr)
            : &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
    ::inet_ntop(family(), bytes, letters.data(), letters.size());
    return letters.data();
  }

  int port() const {
    return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port
                                     : reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  }

  SocketAddress with_port(int port) const {
    SocketAddress result = *this;
    const std::uint16_t number = htons(static_cast<std::uint16_t>(port));
    if (family() == AF_INET) {
      reinterpret_cast<sockaddr_in*>(&result.storage_)->sin_port = number;
    } else {
      reinterpret_cast<sockaddr_in6*>(&result.storage_)->sin6_port = number;
    }
    return result;
  }

 private:
  sockaddr_storage storage_{};
  socklen_t num_bytes_ = 0;
};

/// The addresses of a host, of any family or of one, preferred ones first; none if it is not known.
std::vector<SocketAddress> addresses_of(const std::string& host, int family = AF_UNSPEC);

/// A network interface of this host.
struct Interface {
  std::string name;
  SocketAddress address;
};

/// The interface that a user means: by its name, an address, or a network such as 10.0.0.0/8.
/// CommError that shows all if there is none.
Interface find_interface(const std::string& wanted);

/// The interface that has an address; nothing if none has.
std::optional<Interface> interface_with(const SocketAddress& address);

/// A TCP socket that does not block; closed at the end.
class TcpSocket {
 public:
  TcpSocket() = default;
  explicit TcpSocket(int descriptor) : descriptor_(descriptor) {}

  ~TcpSocket() { close(); }
  TcpSocket(TcpSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  /// Bound to an address of this host. A port on which connections have just ended can be had, as
  /// GPI-2 does. Without a descriptor if it cannot be had, for which errno tells the reason.
  static TcpSocket bound_to(const SocketAddress& address) {
    TcpSocket socket = open(address);
    if (!socket.is_open()) return socket;
    const int is_on = 1;
    ::setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof is_on);
    if (::bind(socket.descriptor_, address.get(), address.num_bytes()) != 0) give_up(socket);
    return socket;
  }

  /// Begins to connect, and does not wait for it. Without a descriptor if that fails
  /// at once, which errno then tells.
  static TcpSocket connecting_to(const SocketAddress& address) {
    TcpSocket socket = open(address);
    if (!socket.is_open()) return socket;
    const int status = ::connect(socket.descriptor_, address.get(), address.num_bytes());
    if (status != 0 && errno != EINPROGRESS) give_up(socket);
    return socket;
  }

  /// The next that has connected to this one, which listens; without a descriptor if there is none.
  TcpSocket accept() const {
    return TcpSocket(::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }

  /// What is written is sent at once, however short it is.
  void send_without_delay() const {
    const int is_on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &is_on, sizeof is_on);
  }

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  static TcpSocket open(const SocketAddress& address) {
    return TcpSocket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }

  // Keeps the reason, which closing may overwrite.
  static void give_up(TcpSocket& socket) {
    const int error = errno;
    socket.close();
    errno = error;
  }

  int descriptor_ = -1;
};

/// What has become of a connection: 0 or an errno. Once poll() has found it writable.
int error_of_connection(int descriptor);

}  // namespace tnt::comm
