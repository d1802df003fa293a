#pragma once

namespace comera {

class Backend;

// Gives every operation that can be made of others its composition, for every compute type.
void register_compositions(Backend& backend);

}  // namespace comera
