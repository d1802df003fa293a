#pragma once

namespace comera::cli {

// The one place that prepares the process. The first thing that main() does:
//
//   - Standard input, output and error are open: what the caller has closed is /dev/null. A file that the
//     program opens later could otherwise become descriptor 2 and get the messages.
//   - OpenMP's idle threads do not spin: where the caller has not chosen, the program starts itself once
//   more.
//   - As many files may be open as the system allows: each shard of a set is.
//   - A reader that goes away (SIGPIPE) and a file that meets the limit on its size (SIGXFSZ) are failures of
//     the call that writes, not the end of the process.
void prepare_process(char** argv);

// Ends the process, as its caller would have it, by the SIGPIPE that was not waited for. Returns where the
// caller ignores that signal.
void end_by_broken_pipe();

}  // namespace comera::cli
