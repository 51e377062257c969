#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"

#include <poll.h>

#include <cerrno>
#include <optional>
#include <thread>
#include <utility>

#include "tnt/comm/base/start_wait.hpp"
#include "tnt/comm/transport/rma/bootstrap/signed_connection.hpp"
#include "tnt/comm/transport/rma/sockets.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kMostTableBytes = std::size_t{1} << 30;
constexpr auto kRetryInterval = std::chrono::milliseconds(50);

/// Any other rank.
class Member final : public Bootstrap {
 public:
  Member(BootstrapPlace place, const Deadline& deadline)
      : place_(std::move(place)), deadline_(deadline) {
    while (!is_admitted()) wait_to_try_again("the connection was closed");
    interface_ = interface_of(place_, SocketAddress::of(connection_.descriptor(), ::getsockname));
  }

  const Interface& interface() const override { return interface_; }

  std::vector<std::string> exchange(const std::string& own_record) override {
    stream_->send(kRecordLetter + own_record);
    const std::string message =
        await([&] { return stream_->take(kMostTableBytes); }, "to tell who is there");
    if (message.starts_with(kTableLetter)) {
      return records_in(std::string_view(message).substr(1), place_.size);
    }
    raise_failure(message);
  }

 private:
  // Rank 0 may be started later, and the name of its host be known later.
  TcpSocket connect() {
    while (true) {
      std::string reason = "the host's name is not known";
      for (const SocketAddress& address : addresses_of(place_.rendezvous.host)) {
        TcpSocket connection = TcpSocket::connecting_to(address.with_port(place_.rendezvous.port));
        const int error = connection.is_open() ? await_answer(connection.descriptor()) : errno;
        if (error == 0) return connection;
        reason = reason_of(error, address);
      }
      wait_to_try_again(reason);
    }
  }

  void wait_to_try_again(const std::string& reason) {
    if (deadline_.is_over()) {
      throw Error(ErrorKind::timeout, "rank ", place_.rank, " could not reach rank 0 at ",
                  shown(place_.rendezvous), " within ", deadline_.timeout_s(), " s (", reason,
                  "). Is rank 0 running, and on that host? Does a firewall close the port?");
    }
    if (!has_reported_ && seconds_since(begin_) > place_.stall_report_s) {
      has_reported_ = true;
      log_warning(place_.rank, "has waited ", place_.stall_report_s, " s for rank 0 at ",
                  shown(place_.rendezvous), " (", reason, ").", places_of({0}), " ",
                  remedy_for_absent_ranks("Is it running, and on that host?"), " [stall]");
    }
    check_interrupt();
    std::this_thread::sleep_for(kRetryInterval);
  }

  // 0 or an errno. Waits for some seconds at most; looks at least once, so that the last error is
  // the one that a user should know.
  int await_answer(int descriptor) const {
    const Deadline deadline(kAnswerTimeS);
    do {
      pollfd writable{descriptor, POLLOUT, 0};
      if (::poll(&writable, 1, kLookMs) > 0) return error_of_connection(descriptor);
      check_interrupt();
    } while (!deadline.is_over() && !deadline_.is_over());
    return ETIMEDOUT;
  }

  // False if the connection was closed without an answer, as where too many others connect.
  bool is_admitted() {
    connection_ = connect();
    connection_.send_without_delay();
    stream_.emplace(connection_.descriptor(), SignedConnection::End::member);
    const auto greeting =
        await_or_end([&] { return stream_->take_raw(kMagic.size() + kNumberBytes); }, "to greet");
    if (!greeting) return false;
    if (!greeting->starts_with(kMagic)) {
      throw Error(ErrorKind::comm, "rank ", place_.rank, ": what listens at ",
                  shown(place_.rendezvous), " is not rank 0 of this version of tnt-comm.");
    }
    const std::string number = random_bytes(kNumberBytes);
    const std::string numbers = greeting->substr(kMagic.size()) + number;
    const std::string rank = in_letters(place_.rank, kRankLetters);
    stream_->send_raw(kMagic);
    stream_->send_raw(number);
    stream_->send_raw(rank);
    stream_->send_raw(bytes_of(proof_of(place_, "member", numbers, rank)));
    const auto proof = await_or_end([&] { return stream_->take_raw(kProofBytes); }, "to answer");
    if (!proof) return false;
    if (*proof == kRefusal) throw Error(ErrorKind::comm, why_refused());
    if (!are_equal(proof_of(place_, "hub", numbers, rank), *proof)) {
      throw Error(ErrorKind::comm, "rank ", place_.rank, ": what listens at ",
                  shown(place_.rendezvous), " does not know this job's secret (TNT_JOB_SECRET).");
    }
    stream_->set_key(key_of(place_, numbers));
    return true;
  }

  template <typename Take>
  std::string await(Take&& take, const char* what) {
    if (auto taken = await_or_end(take, what)) return std::move(*taken);
    throw Error(ErrorKind::peer_lost, "rank ", place_.rank, " has lost rank 0 at ",
                shown(place_.rendezvous), " while the job started. See the output of rank 0.")
        .caused_by(0);
  }

  // Nothing if the connection has ended.
  template <typename Take>
  std::optional<std::string> await_or_end(Take&& take, const char* what) {
    while (true) {
      const bool is_open = stream_->advance();
      if (auto taken = take()) return taken;
      if (!is_open) return std::nullopt;
      // Rank 0, whose time ends about now too, knows who has not come, and says it.
      if (deadline_.is_over() && seconds_since(deadline_.end()) > kGraceS) {
        throw Error(ErrorKind::timeout, "rank ", place_.rank, " waited ", deadline_.timeout_s(),
                    " s for rank 0 at ", shown(place_.rendezvous), " ", what, ".");
      }
      check_interrupt();
      const short events = stream_->has_output() ? POLLIN | POLLOUT : POLLIN;
      pollfd descriptor{connection_.descriptor(), events, 0};
      ::poll(&descriptor, 1, kLookMs);
    }
  }

  std::string why_refused() const {
    return text("rank ", place_.rank, " was refused at ", shown(place_.rendezvous),
                ": TNT_JOB_SECRET, TNT_JOB_ID or TNT_SIZE differ from those of rank 0.");
  }

  static constexpr double kAnswerTimeS = 5;
  static constexpr double kGraceS = 2;

  BootstrapPlace place_;
  Deadline deadline_;
  TcpSocket connection_;
  std::optional<SignedConnection> stream_;
  Interface interface_;
  Clock::time_point begin_ = Clock::now();
  bool has_reported_ = false;
};

}  // namespace

std::unique_ptr<Bootstrap> start_bootstrap(BootstrapPlace place, const Deadline& deadline) {
  if (place.rank == 0) return listen_as_hub(std::move(place), deadline);
  return std::make_unique<Member>(std::move(place), deadline);
}

}  // namespace tnt::comm
