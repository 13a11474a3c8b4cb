// The only place that ends the process.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <unistd.h>

#include "heap.hpp"
#include "orrery/cli/cli.hpp"

int main(int argc, char** argv) {
  using namespace orrery::cli;
  prepare_heap();
  std::signal(SIGINT, [](int) { std::_Exit(kInterrupted); });
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, reported as one
  Streams streams{std::cout, std::cerr, ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr};
  try {
    return run({argv + 1, argv + argc}, streams);
  } catch (const std::bad_alloc&) {
    std::cerr << "orrery: out of memory\n";
  } catch (const std::exception& e) {
    std::cerr << "orrery: internal error: " << e.what() << "\n";
  }
  return kInternalError;
}
