// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/server_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fusec::runtime {
namespace {

using testing::HasSubstr;

TEST(ServerAddress, HasAllItsParts) {
  const ServerAddress all =
      *parse_server_address("redis://me:p%40s%3As@cache.example:7000/12?expire=12h&largest=2M&retry=5s");
  EXPECT_EQ(all.host, "cache.example");
  EXPECT_EQ(all.port, 7000);
  EXPECT_EQ(all.database, 12);
  EXPECT_EQ(all.user, "me");
  EXPECT_EQ(all.password, "p@s:s");
  EXPECT_EQ(all.expire, 12 * 3600);
  EXPECT_EQ(all.largest, 2 << 20);
  EXPECT_EQ(all.retry, 5);
  EXPECT_EQ(all.shown(), "redis://cache.example:7000/12");
}

TEST(ServerAddress, MayBeShort) {
  const ServerAddress host = *parse_server_address("redis://h");
  EXPECT_EQ(host.shown(), "redis://h:6379/0");
  EXPECT_EQ(host.expire, 30 * 86400);
  EXPECT_EQ(parse_server_address("redis://[::1]:7/1")->shown(), "redis://[::1]:7/1");
  EXPECT_EQ(parse_server_address("redis://[::1]")->host, "::1");
  const ServerAddress socket = *parse_server_address("unix://:pw@/run/a%20b.sock?db=3&expire=0");
  EXPECT_EQ(socket.socket, "/run/a b.sock");
  EXPECT_EQ(socket.password, "pw");
  EXPECT_EQ(socket.user, "");
  EXPECT_EQ(socket.database, 3);
  EXPECT_EQ(socket.expire, 0);
  EXPECT_EQ(socket.shown(), "unix:///run/a b.sock");
}

TEST(ServerAddress, RefusesTheRestWithoutRepeatingIt) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "begins with redis:// or unix://"},
      {"hunter2", "begins with redis:// or unix://"},
      {"rediss://hunter2", "TLS is not supported"},
      {"redis://", "the host is missing"},
      {"redis://:hunter2@", "the host is missing"},
      {"redis://hunter2@h", "a user needs a password"},
      {"redis://a:hunter2%4@h", "no two hexadecimal digits"},
      {"redis://a:hunter2%00@h", "no two hexadecimal digits"},
      {"redis://a:hunter2%zz@h", "no two hexadecimal digits"},
      {"redis://a:hunter2@h:0", "the port is a number"},
      {"redis://a:hunter2@h:65536", "the port is a number"},
      {"redis://a:hunter2@h:", "the port is a number"},
      {"redis://[::1", "stands in brackets"},
      {"redis://[::1]x", "the port follows a colon"},
      {"redis://h/hunter2", "db is a number"},
      {"redis://h/65536", "db is a number"},
      {"redis://h/1/2", "db is a number"},
      {"redis://h?expire=hunter2", "expire is a time"},
      {"redis://h?expire=9999999999d", "expire is a time"},
      {"redis://h?expire=-1", "expire is a time"},
      {"redis://h?expire=", "expire is a time"},
      {"redis://h?largest=1K", "largest is a size"},
      {"redis://h?largest=1G", "largest is a size"},
      {"redis://h?retry=0", "retry is a time"},
      {"redis://h?hunter2=1", "there is no such parameter"},
      {"redis://a:hunt?er2@h", "there is no such parameter"},
      {"unix://run/redis.sock", "the path of a socket is absolute"},
      {"unix:///" + std::string(107, 'x'), "at most 107 bytes"},
  };
  for (const auto& [text, says] : cases) {
    const Result<ServerAddress> parsed = parse_server_address(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::invalid_argument);
    EXPECT_THAT(parsed.status().message(), HasSubstr(says)) << text;
    EXPECT_THAT(parsed.status().str(), Not(HasSubstr("hunt"))) << text;
  }
}

}  // namespace
}  // namespace fusec::runtime
