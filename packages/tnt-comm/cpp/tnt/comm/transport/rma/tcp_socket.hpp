#pragma once

#include <netinet/in.h>

#include <optional>
#include <string>

namespace tnt::comm {

/// A TCP socket of IPv4; closed at the end.
class TcpSocket {
 public:
  TcpSocket() = default;
  ~TcpSocket() { close(); }
  TcpSocket(TcpSocket&& other) noexcept;
  TcpSocket& operator=(TcpSocket&& other) noexcept;

  /// Bound to a port of this host, on all addresses. A port on which connections have
  /// just ended can be had, as GPI-2 does. CommError if somebody else has it.
  static TcpSocket bound_to(int port);

  /// Begins to connect, and does not wait for it. Without a descriptor if that fails
  /// at once, which errno then tells.
  static TcpSocket connecting_to(const sockaddr_in& address);

  int descriptor() const { return descriptor_; }
  void close();

 private:
  explicit TcpSocket(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

/// The address of a port of a host; nothing if the host's name is not known.
std::optional<sockaddr_in> look_up(const std::string& host, int port);

/// What has become of a connection that was begun: 0 or an errno. Once poll() has
/// found it writable.
int error_of_connection(int descriptor);

}  // namespace tnt::comm
