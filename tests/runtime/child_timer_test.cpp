// SPDX-License-Identifier: Apache-2.0
// Candidates timed in a child process: one that never answers, one that faults and one that ends are failures, and the
// next request gets a new child.
#include "runtime/engine/child_timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace fusec::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A child that reads programs and answers each other request by `answer`, in the shell.
std::unique_ptr<CandidateTimer> shell_timer(const std::string& answer, double seconds = 20) {
  const std::string script =
      "while read -r word first rest; do\n"
      "  if [ \"$word\" = begin ]; then head -c \"$first\" >/dev/null; echo ok; continue; fi\n" +
      answer + "\ndone\n";
  return make_child_timer({"/bin/sh", "-c", script}, seconds);
}

ir::Program small_program() {
  ir::Program program;
  program.name = "candidates";
  return program;
}

TEST(ChildTimer, TakesTimesFromTheChild) {
  const auto timer = shell_timer("echo ok 1.5 2.5");
  ASSERT_TRUE(timer->begin(small_program()).ok());
  const auto us = timer->time(0, true, 0);
  ASSERT_TRUE(us.ok()) << us.status().str();
  EXPECT_THAT(*us, ElementsAre(1.5, 2.5));
  const auto both = timer->time_in_turn(0, 1, true);
  ASSERT_TRUE(both.ok()) << both.status().str();
  EXPECT_THAT(both->first, ElementsAre(1.5));
  EXPECT_THAT(both->second, ElementsAre(2.5));
}

// Candidate 1 never ends; the others do.
TEST(ChildTimer, AnEndlessCandidateFailsAndTheNextOneIsTimed) {
  const auto timer = shell_timer("if [ \"$first\" = 1 ]; then exec sleep 1000; else echo ok 3; fi", 0.5);
  ASSERT_TRUE(timer->begin(small_program()).ok());
  ASSERT_TRUE(timer->time(0, true, 0).ok());
  const auto start = std::chrono::steady_clock::now();
  const auto endless = timer->time(1, true, 0);
  EXPECT_THAT(endless.status().message(), HasSubstr("it did not end in 0.5 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_TRUE(timer->alive().ok());
  EXPECT_TRUE(timer->time(2, true, 0).ok());
}

TEST(ChildTimer, AFaultIsAFailureThatNamesTheSignal) {
  const auto timer = shell_timer("if [ \"$first\" = 1 ]; then kill -SEGV $$; else echo ok 3; fi");
  ASSERT_TRUE(timer->begin(small_program()).ok());
  EXPECT_THAT(timer->time(1, true, 0).status().message(), HasSubstr("ended with signal 11"));
  EXPECT_TRUE(timer->time(0, true, 0).ok());
  EXPECT_TRUE(timer->alive().ok());
}

TEST(ChildTimer, AChildThatSaysWhyIsBelieved) {
  const auto timer = shell_timer("echo failed out of memory");
  ASSERT_TRUE(timer->begin(small_program()).ok());
  EXPECT_EQ(timer->time(0, true, 0).status().message(), "out of memory");
}

TEST(ChildTimer, ChildrenThatAnswerNothingEndTheTuning) {
  const auto timer = make_child_timer({"/bin/sh", "-c", "exit 3"}, 20);
  ASSERT_TRUE(timer->begin(small_program()).ok());
  for (int i = 0; i < 3; ++i) EXPECT_THAT(timer->time(0, true, 0).status().message(), HasSubstr("exit code 3"));
  EXPECT_FALSE(timer->alive().ok());
  EXPECT_FALSE(make_child_timer({"/no/such/program"}, 1)->time(0, true, 0).ok());
}

// Answers by rule, so that the child's end can be tested without a device.
class RuleTimer final : public CandidateTimer {
 public:
  Status begin(const ir::Program& work) override {
    name = work.name;
    return {};
  }
  Result<std::vector<double>> time(int candidate, bool, double best_us) override {
    if (candidate == 9) return Status(StatusCode::device, "two\nlines");
    return std::vector<double>{static_cast<double>(candidate), best_us};
  }
  Result<std::pair<std::vector<double>, std::vector<double>>> time_in_turn(int first, int second, bool) override {
    return std::pair(std::vector<double>{static_cast<double>(first)}, std::vector<double>{static_cast<double>(second)});
  }
  Result<int64_t> local_bytes(int candidate) override { return candidate * 16; }
  Status alive() const override { return {}; }
  std::string name;
};

TEST(ChildTimer, TheOtherEndAnswersEachRequest) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  RuleTimer rule;
  std::thread child([&] {
    (void)serve_candidates(ends[1], ends[1], rule);
    close(ends[1]);
  });
  const std::string program = "program @candidates() -> () ops 0 {\n}\n";
  const std::string requests = "begin " + std::to_string(program.size()) + "\n" + program +
                               "time 3 1 2.5\nturn 1 2 0\nlocal 2\ntime 9 1 0\nnonsense\n";
  ASSERT_EQ(write(ends[0], requests.data(), requests.size()), static_cast<ssize_t>(requests.size()));
  shutdown(ends[0], SHUT_WR);
  std::string answers;
  char buffer[256];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    answers.append(buffer, static_cast<std::size_t>(n));
  child.join();
  close(ends[0]);
  EXPECT_EQ(answers, "ok\nok 3 2.5\nok 1 2\nok 32\nfailed two lines\nfailed no request: nonsense\n");
  EXPECT_EQ(rule.name, "candidates");
}

}  // namespace
}  // namespace fusec::runtime
