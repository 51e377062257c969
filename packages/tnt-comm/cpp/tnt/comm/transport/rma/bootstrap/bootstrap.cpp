#include "tnt/comm/transport/rma/bootstrap/bootstrap.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/transport/rma/bootstrap/handshake.hpp"
#include "tnt/comm/transport/rma/bootstrap/hub.hpp"
#include "tnt/comm/transport/rma/bootstrap/signed_stream.hpp"

namespace tnt::comm {
namespace {

constexpr std::size_t kMostTableBytes = std::size_t{1} << 30;
constexpr auto kRetryInterval = std::chrono::milliseconds(50);

/// Any other rank.
class Member final : public Bootstrap {
 public:
  Member(BootstrapPlace place, const Deadline& deadline)
      : place_(std::move(place)), deadline_(deadline), connection_(connect()) {
    send_at_once(connection_.descriptor());
    stream_.emplace(connection_.descriptor(), SignedStream::End::member);
    introduce();
    const SocketAddress own = own_address_of(connection_.descriptor());
    const auto found =
        place_.interface.empty() ? interface_with(own) : find_interface(place_.interface);
    interface_ = found ? *found : Interface{.name = "", .address = own};
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
  Connection connect() {
    const Clock::time_point begin = Clock::now();
    bool has_reported = false;
    while (true) {
      std::string reason = "the host's name is not known";
      if (const auto address = resolve_host(place_.rendezvous)) {
        Connection connection = open_socket(*address);
        const int error = try_connect(connection.descriptor(), *address);
        if (error == 0) return connection;
        reason = std::strerror(error);
      }
      if (deadline_.is_over()) {
        throw Error(
            ErrorKind::timeout,
            text("rank ", place_.rank, " could not reach rank 0 at ", shown(place_.rendezvous),
                 " within ", deadline_.timeout_s(), " s (", reason,
                 "). Is rank 0 running, and on that host? Does a firewall close"
                 " the port?"));
      }
      if (!has_reported && seconds_since(begin) > place_.stall_report_s) {
        has_reported = true;
        log_warning(place_.rank, text("has waited ", place_.stall_report_s, " s for rank 0 at ",
                                      shown(place_.rendezvous), " (", reason, ")."));
      }
      check_interrupt();
      std::this_thread::sleep_for(kRetryInterval);
    }
  }

  // 0 or an errno. Waits for an answer for some seconds at most.
  int try_connect(int descriptor, const SocketAddress& address) const {
    if (::connect(descriptor, address.get(), address.num_bytes()) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    const Deadline deadline(kAnswerTimeS);
    while (!deadline.is_over() && !deadline_.is_over()) {
      pollfd writable{descriptor, POLLOUT, 0};
      if (::poll(&writable, 1, kLookMs) > 0) {
        int error = 0;
        socklen_t num_bytes = sizeof error;
        ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &num_bytes);
        return error;
      }
      check_interrupt();
    }
    return ETIMEDOUT;
  }

  void introduce() {
    const std::string greeting =
        await([&] { return stream_->take_raw(kMagic.size() + kNumberBytes); }, "to greet");
    if (!greeting.starts_with(kMagic)) {
      throw Error(ErrorKind::comm,
                  text("rank ", place_.rank, ": what listens at ", shown(place_.rendezvous),
                       " is no rank 0 of this version of tnt-comm."));
    }
    const std::string number = random_bytes(kNumberBytes);
    const std::string numbers = greeting.substr(kMagic.size()) + number;
    const std::string rank = in_letters(place_.rank);
    stream_->send_raw(kMagic);
    stream_->send_raw(number);
    stream_->send_raw(rank);
    stream_->send_raw(bytes_of(proof_of(place_, "member", numbers, rank)));
    is_proving_ = true;
    const std::string proof = await([&] { return stream_->take_raw(kProofBytes); }, "to answer");
    if (!are_equal(proof_of(place_, "hub", numbers, rank), proof)) {
      throw Error(ErrorKind::comm,
                  text("rank ", place_.rank, ": what listens at ", shown(place_.rendezvous),
                       " does not know this job's secret (TNT_JOB_SECRET)."));
    }
    is_proving_ = false;
    stream_->set_key(key_of(place_, numbers));
  }

  template <typename Take>
  std::string await(Take&& take, const char* what) {
    while (true) {
      const bool is_open = stream_->advance();
      if (auto taken = take()) return std::move(*taken);
      if (!is_open) throw Error(is_proving_ ? ErrorKind::comm : ErrorKind::peer_lost, why_closed());
      if (deadline_.is_over()) {
        throw Error(ErrorKind::timeout,
                    text("rank ", place_.rank, " waited ", deadline_.timeout_s(),
                         " s for rank 0 at ", shown(place_.rendezvous), " ", what, "."));
      }
      check_interrupt();
      const short events = stream_->has_output() ? POLLIN | POLLOUT : POLLIN;
      pollfd descriptor{connection_.descriptor(), events, 0};
      ::poll(&descriptor, 1, kLookMs);
    }
  }

  std::string why_closed() const {
    if (is_proving_) {
      return text("rank ", place_.rank, " was refused at ", shown(place_.rendezvous),
                  ": TNT_JOB_SECRET, TNT_JOB_ID or TNT_SIZE differ from those of rank 0.");
    }
    return text("rank ", place_.rank, " has lost rank 0 at ", shown(place_.rendezvous),
                " while the job started. See the output of rank 0.");
  }

  static constexpr double kAnswerTimeS = 5;

  BootstrapPlace place_;
  Deadline deadline_;
  Connection connection_;
  std::optional<SignedStream> stream_;
  Interface interface_;
  bool is_proving_ = false;
};

}  // namespace

std::unique_ptr<Bootstrap> start_bootstrap(BootstrapPlace place, const Deadline& deadline) {
  if (place.rank == 0) return listen_as_hub(std::move(place), deadline);
  return std::make_unique<Member>(std::move(place), deadline);
}

}  // namespace tnt::comm
