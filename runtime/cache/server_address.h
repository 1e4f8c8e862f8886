// SPDX-License-Identifier: Apache-2.0
// The address of a cache server as users write it:
//
//   redis://[[USER]:PASSWORD@]HOST[:PORT][/DB][?PARAMETERS]      HOST: a name, an IPv4 address or [an IPv6 address]
//   unix://[[USER]:PASSWORD@]/PATH/OF/THE/SOCKET[?PARAMETERS]
//
//   db=0         the number of the database, for sockets
//   expire=30d   how long the server keeps what it is given: s, m, h or d; 0: until the server itself removes it
//   largest=16M  bytes of a value; larger ones are neither sent nor read
//   retry=30s    how long a server that failed is left alone
//
// Bytes of user, password and path may be written %XX.
#pragma once

#include <cstdint>
#include <string>

#include "fusec/status.h"

namespace fusec::runtime {

struct ServerAddress {
  std::string host;                     // empty: a socket
  std::string socket;                   // its path
  int port = 6379;                      // of the host
  int database = 0;                     // 0 to 65535
  std::string user;                     // empty: the server's default one
  std::string password;                 // empty: none
  int64_t expire = 2592000;             // seconds; 0: never
  int64_t largest = int64_t{16} << 20;  // bytes
  int64_t retry = 30;                   // seconds

  // For messages: without user, password and parameters.
  std::string shown() const;
};

// invalid_argument; the message says which rule is broken and repeats nothing of the text, which may hold a password.
Result<ServerAddress> parse_server_address(const std::string& text);

}  // namespace fusec::runtime
