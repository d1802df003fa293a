#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

// What a terminal shows besides plain text: colours, and a status line below everything that is printed.
// Files and pipes get neither.
namespace comera {

// ---- Colours

// Whether `to` is a terminal that shows colours and nobody has declined them (NO_COLOR, TERM=dumb).
bool shows_colours(std::FILE* to);

enum class Style { error, warning, note, good, heading };

// The text as `to` shows it: in colour, or unchanged.
std::string styled(std::FILE* to, Style style, std::string_view text);
// The first line as a heading.
std::string with_heading(std::FILE* to, std::string_view text);

// ---- The status line: at most one, the last line of a terminal. What console.h prints meanwhile appears
// above it.

bool is_terminal(std::FILE* file);
// Of a terminal; 80 where that is unknown.
std::size_t terminal_width(std::FILE* file);
// The text with spaces before words that would be broken at the right edge: they begin the next row, and what
// is copied from the terminal stays one line.
std::string fitted(std::string_view text, std::size_t width);
// Shows `line`, without a line end, in place of the one before. Nothing else than a terminal may be given.
void show_status(std::FILE* terminal, std::string_view line);
// Keeps the line as it is; what follows is printed below it.
void keep_status();
void erase_status();

// Seconds since something was printed for the user's eyes: on a terminal, or on standard error.
double silent_seconds();

// Prints as console.h does; returns errno, or 0. Messages are fitted to a terminal, results are not.
int print_text(std::FILE* to, std::string_view text) noexcept;

}  // namespace comera
