#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

namespace tnt::comm {

/// An address of IPv4 or IPv6, with a port.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t num_bytes);
  /// A port on all addresses of this host.
  static SocketAddress any_of_ipv4(int port);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t num_bytes() const { return num_bytes_; }
  int family() const { return storage_.ss_family; }
  bool is_loopback() const;
  /// Whether it is a link-local one, which each interface may have, without its interface.
  bool lacks_interface() const;

  /// Without the port, such as "10.0.0.1" or "fe80::1".
  std::string host() const;
  int port() const;
  SocketAddress with_port(int port) const;

  bool is_same_host(const SocketAddress& other) const { return host() == other.host(); }

 private:
  sockaddr_storage storage_{};
  socklen_t num_bytes_ = 0;
};

/// Of this end of a connection, or of the other one.
SocketAddress own_address_of(int descriptor);
SocketAddress peer_address_of(int descriptor);

/// The addresses of a host, of any family or of one, the preferred one first; none if its name is
/// not known (now).
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
  TcpSocket(TcpSocket&& other) noexcept;
  TcpSocket& operator=(TcpSocket&& other) noexcept;

  /// Bound to an address of this host. A port on which connections have just ended can be had, as
  /// GPI-2 does. Without a descriptor if it cannot be had, for which errno tells the reason.
  static TcpSocket bound_to(const SocketAddress& address);

  /// Begins to connect, and does not wait for it. Without a descriptor if that fails
  /// at once, which errno then tells.
  static TcpSocket connecting_to(const SocketAddress& address);

  /// The next of those that have connected to this one, which listens; without a descriptor if
  /// there is none now.
  TcpSocket accept() const;

  /// What is written is sent at once, however short it is.
  void send_without_delay() const;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

/// What has become of a connection that was begun: 0 or an errno. Once poll() has
/// found it writable.
int error_of_connection(int descriptor);

}  // namespace tnt::comm
