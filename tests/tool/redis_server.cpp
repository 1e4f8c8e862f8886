// SPDX-License-Identifier: Apache-2.0
#include "tests/tool/redis_server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

namespace fusec::tool_test {

RedisServer::RedisServer(const std::string& folder) : socket_(folder + "/sock") {
  std::filesystem::create_directory(folder);
  std::vector<std::string> words = {"redis-server", "--port", "0", "--unixsocket", socket_, "--dir",
                                    folder,         "--save", "",  "--appendonly", "no"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  (void)posix_spawn_file_actions_init(&actions);
  (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (posix_spawnp(&process_, argv[0], &actions, nullptr, argv.data(), environ) != 0) process_ = -1;
  (void)posix_spawn_file_actions_destroy(&actions);
  for (int i = 0; is_running() && i < 1000 && !std::filesystem::exists(socket_); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void RedisServer::stop() {
  if (!is_running()) return;
  (void)kill(process_, SIGTERM);
  (void)waitpid(process_, nullptr, 0);
  process_ = -1;
}

}  // namespace fusec::tool_test
