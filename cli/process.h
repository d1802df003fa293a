#pragma once

namespace comera::cli {

// The only code that prepares the process. main() calls it first:
//
//   - Standard input, output and error are open: descriptors that the caller has closed become /dev/null.
//     Otherwise a file opened later could become descriptor 2 and receive the messages.
//   - OpenMP's idle threads do not spin: unless the caller has chosen otherwise, the program restarts itself
//     once.
//   - As many files may be open as the system allows: each shard of a set is.
//   - A reader that disconnects (SIGPIPE) and a file that reaches its size limit (SIGXFSZ) are failures of
//     the writing call instead of ending the process.
void prepare_process(char** argv);

// Ends the process by the suppressed SIGPIPE, as its caller expects. Returns if the caller ignores that
// signal.
void end_by_broken_pipe();

}  // namespace comera::cli
