// What nearly every file of the layers includes, parsed once (see gantry_layer in
// toolchains/GantryTargets.cmake). A file still includes what it uses: without precompiled headers, as the
// preset `dev` builds it, it has only that.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
