#include "cli/program.h"

int main(int argc, char** argv) { return comera::cli::run_program(argc, argv); }
