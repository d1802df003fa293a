#include "cli/process.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  comera::cli::prepare_process(argv);
  return comera::cli::run_program(argc, argv);
}
