#include "tnt/comm/transport/rma/sockets.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

socklen_t bytes_of_family(int family) {
  return family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(first, ::freeifaddrs);
  std::vector<Interface> result;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    result.push_back({each->ifa_name, {each->ifa_addr, bytes_of_family(family)}});
  }
  return result;
}

// The bytes of an address of either family; empty if it is none.
std::string bytes_of_address(const std::string& address) {
  std::array<char, sizeof(in6_addr)> bytes{};
  if (::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) return {bytes.data(), 4};
  if (::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1) return {bytes.data(), 16};
  return {};
}

bool has_first_bits(const std::string& bytes, const std::string& prefix, int num_bits) {
  if (bytes.size() != prefix.size()) return false;
  for (int bit = 0; bit < num_bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if ((bytes[byte] & mask) != (prefix[byte] & mask)) return false;
  }
  return true;
}

// Whether an address lies in a network such as "10.0.0.0/8", or is the one that is named.
bool is_in(const std::string& wanted, const SocketAddress& address) {
  const std::size_t slash = wanted.find('/');
  const std::string network = bytes_of_address(wanted.substr(0, slash));
  if (network.empty()) return false;
  int num_bits = static_cast<int>(8 * network.size());
  if (slash != std::string::npos) {
    const char* end = wanted.data() + wanted.size();
    const auto [stop, error] = std::from_chars(wanted.data() + slash + 1, end, num_bits);
    if (error != std::errc{} || stop != end || num_bits < 0 ||
        num_bits > static_cast<int>(8 * network.size())) {
      return false;
    }
  }
  return has_first_bits(bytes_of_address(address.host()), network, num_bits);
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t num_bytes) : num_bytes_(num_bytes) {
  std::memcpy(&storage_, address, std::min<std::size_t>(num_bytes, sizeof storage_));
}

SocketAddress SocketAddress::any_of_ipv4(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address), sizeof address).with_port(port);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&storage_);
    return (ntohl(address->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
  return IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
}

bool SocketAddress::lacks_interface() const {
  if (family() != AF_INET6) return false;
  const auto* address = reinterpret_cast<const sockaddr_in6*>(&storage_);
  return IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) && address->sin6_scope_id == 0;
}

std::string SocketAddress::host() const {
  std::array<char, INET6_ADDRSTRLEN> letters{};
  const void* bytes =
      family() == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
  ::inet_ntop(family(), bytes, letters.data(), letters.size());
  return letters.data();
}

int SocketAddress::port() const {
  return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
}

SocketAddress SocketAddress::with_port(int port) const {
  SocketAddress result = *this;
  const std::uint16_t number = htons(static_cast<std::uint16_t>(port));
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&result.storage_)->sin_port = number;
  } else {
    reinterpret_cast<sockaddr_in6*>(&result.storage_)->sin6_port = number;
  }
  return result;
}

SocketAddress own_address_of(int descriptor) {
  sockaddr_storage storage{};
  socklen_t num_bytes = sizeof storage;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &num_bytes);
  return {reinterpret_cast<const sockaddr*>(&storage), num_bytes};
}

SocketAddress peer_address_of(int descriptor) {
  sockaddr_storage storage{};
  socklen_t num_bytes = sizeof storage;
  ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&storage), &num_bytes);
  return {reinterpret_cast<const sockaddr*>(&storage), num_bytes};
}

std::vector<SocketAddress> addresses_of(const std::string& host, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(first, ::freeaddrinfo);
  std::vector<SocketAddress> result;
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    result.emplace_back(each->ai_addr, each->ai_addrlen);
  }
  return result;
}

Interface find_interface(const std::string& wanted) {
  const std::vector<Interface> all = interfaces();
  std::string shown;
  for (const Interface& each : all) {
    if (each.name == wanted || is_in(wanted, each.address)) return each;
    shown += text(shown.empty() ? "" : ", ", each.name, " (", each.address.host(), ")");
  }
  throw Error(ErrorKind::comm, text("TNT_INTERFACE='", wanted,
                                    "' is no network interface of this host, nor an"
                                    " address or a network of one. There are: ",
                                    shown, "."));
}

std::optional<Interface> interface_with(const SocketAddress& address) {
  for (const Interface& each : interfaces()) {
    if (each.address.is_same_host(address)) return each;
  }
  return std::nullopt;
}

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
