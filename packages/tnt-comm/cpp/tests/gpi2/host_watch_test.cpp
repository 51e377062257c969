// When a host counts as gone, and when as merely silent.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>

#include "gpi2_ranks.hpp"
#include "tnt/comm/transport/rma/peer_table.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"

namespace tnt::comm {
namespace {

using Answer = HostProbe::Answer;
using tests::comes_true;

constexpr double kLimitS = 4;

// Answers at once what it is told to answer.
class ScriptedProbe final : public HostProbe {
 public:
  struct Script {
    Answer answer = Answer::given;
    int num_questions = 0;
  };
  explicit ScriptedProbe(Script& script) : script_(script) {}

  std::string host() const override { return "b"; }
  void ask() override { ++script_.num_questions; }
  Answer answer() override { return script_.answer; }

 private:
  Script& script_;
};

// A watch in a time that passes only here.
class HostWatchTest : public ::testing::Test {
 protected:
  void calibrate_with(Answer answer) {
    script_.answer = answer;
    watch_.emplace(std::make_unique<ScriptedProbe>(script_), kLimitS);
    EXPECT_FALSE(watch_->is_gone(0, now_));
  }

  // Silence of so many seconds more; whether the host is gone at their end.
  bool is_gone_after(double seconds) {
    bool is_gone = false;
    for (double passed = 0; passed < seconds; passed += kStepS) {
      now_ += Deadline::to_duration(kStepS);
      silence_s_ += kStepS;
      is_gone = watch_->is_gone(silence_s_, now_);
    }
    return is_gone;
  }

  static constexpr double kStepS = 0.125;
  ScriptedProbe::Script script_;
  std::optional<HostWatch> watch_;
  Clock::time_point now_{std::chrono::seconds(1000)};
  double silence_s_ = 0;
};

TEST_F(HostWatchTest, IsGoneWhenItIsSilentAndDoesNotAnswer) {
  calibrate_with(Answer::given);
  script_.answer = Answer::none;
  EXPECT_FALSE(is_gone_after(3.5));
  EXPECT_GE(script_.num_questions, 2);
  EXPECT_TRUE(is_gone_after(1));
}

TEST_F(HostWatchTest, IsNotAskedWhileItIsHeard) {
  calibrate_with(Answer::given);
  EXPECT_FALSE(is_gone_after(1.5));
  EXPECT_EQ(script_.num_questions, 1);
}

TEST_F(HostWatchTest, IsThereAsLongAsItAnswers) {
  calibrate_with(Answer::given);
  EXPECT_FALSE(is_gone_after(1000));
  script_.answer = Answer::none;
  EXPECT_FALSE(is_gone_after(1.5));  // the last answer is not so long ago
  EXPECT_TRUE(is_gone_after(2));
}

TEST_F(HostWatchTest, OneAnswerIsEnough) {
  calibrate_with(Answer::given);
  script_.answer = Answer::none;
  EXPECT_FALSE(is_gone_after(3.5));
  script_.answer = Answer::given;
  EXPECT_FALSE(is_gone_after(0.25));
  script_.answer = Answer::none;
  EXPECT_FALSE(is_gone_after(1.5));
}

TEST_F(HostWatchTest, CountsOnlyIfItEverAnswered) {
  calibrate_with(Answer::none);
  EXPECT_FALSE(is_gone_after(1000));
  EXPECT_EQ(script_.num_questions, 1);
}

TEST_F(HostWatchTest, IsNotGoneIfNobodyCouldBeAsked) {
  calibrate_with(Answer::given);
  script_.answer = Answer::moot;
  EXPECT_FALSE(is_gone_after(1000));
}

TEST_F(HostWatchTest, IsNotJudgedByAProcessThatHasBeenStoppedItself) {
  calibrate_with(Answer::given);
  script_.answer = Answer::none;
  EXPECT_FALSE(is_gone_after(3.5));
  now_ += std::chrono::seconds(100);
  silence_s_ += 100;
  EXPECT_FALSE(is_gone_after(kStepS));
  EXPECT_FALSE(is_gone_after(1.5));
  EXPECT_TRUE(is_gone_after(1));
}

class TcpHostProbeTest : public ::testing::TestWithParam<const char*> {
 protected:
  // A port of this host that is bound, so that nobody else listens on it.
  void SetUp() override {
    socket_ = TcpSocket::bound_to(addresses_of(GetParam())[0].with_port(0));
    if (!socket_.is_open()) GTEST_SKIP() << "no address " << GetParam() << " here";
    address_ = SocketAddress::of(socket_.descriptor(), ::getsockname);
  }

  TcpSocket socket_;
  SocketAddress address_;
};

TEST_P(TcpHostProbeTest, IsAnsweredWhereNobodyListens) {
  TcpHostProbe probe("b", address_);
  EXPECT_EQ(probe.host(), "b");
  for (int question = 0; question < 3; ++question) {
    probe.ask();
    EXPECT_TRUE(comes_true([&] { return probe.answer() == Answer::given; }));
  }
}

TEST_P(TcpHostProbeTest, IsAnsweredWhereSomebodyListens) {
  ASSERT_EQ(::listen(socket_.descriptor(), 1), 0);
  TcpHostProbe probe("b", address_);
  probe.ask();
  EXPECT_TRUE(comes_true([&] { return probe.answer() == Answer::given; }));
}

TEST_P(TcpHostProbeTest, IsMootWithoutDescriptors) {
  TcpHostProbe probe("b", address_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  probe.ask();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(probe.answer(), Answer::moot);
}

INSTANTIATE_TEST_SUITE_P(Families, TcpHostProbeTest, ::testing::Values("127.0.0.1", "::1"),
                         [](const auto& family) { return family.index == 0 ? "IPv4" : "IPv6"; });

}  // namespace
}  // namespace tnt::comm
