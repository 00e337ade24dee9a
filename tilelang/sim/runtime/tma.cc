#include "block.h"
namespace sim { void Block::tma_finish() {} }
