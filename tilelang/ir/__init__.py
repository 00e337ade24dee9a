# SPDX-License-Identifier: Apache-2.0
"""The IR: dtypes, expressions, statements, buffers, functions, the intrinsic table, traversal."""

from .buffer import Buffer, Region, Scope
from .builder import Builder, address_of
from .dtype import DType
from .effects import ATOMIC, NOTHING, READ, WRITE, Access, Effects, atomic, effects, expr_effects, read, write
from .expr import (
    EQ, GE, GT, LE, LT, NE, Add, And, BitAnd, BitNot, BitOr, BitXor, Broadcast, Call, Cast, Const, Div, Expr, FloorDiv,
    FloorMod, IfThenElse, Load, Max, Min, Mul, Neg, Not, Or, Ramp, Select, Shl, Shr, StringImm, Sub, TruncDiv, TruncMod,
    Var, all_of, as_bool, as_expr, binary, call, cast, ceildiv, const, const_int, if_then_else, is_const, logical_and,
    logical_not, logical_or, maximum, minimum, neg, promote, select, truncdiv, truncmod,
)
from .func import HostProgram, IRModule, Kernel, PrimFunc, TensorMap
from .intrinsics import TABLE as INTRINSICS
from .intrinsics import Intrinsic
from .node import Node, fresh_session, in_session, node, session
from .printer import expr_text, func_text, stmt_text
from .stmt import (
    Alloc, Assert, Assume, Bind, Break, Continue, Evaluate, For, If, Launch, Parallel, Return, Role, Seq, Stmt, Store, TileOp,
    TileStmt, While, flatten, seq,
)
from .visit import Rewriter, Visitor, buffers_used, free_vars, rebuild, refold, refresh, reintern, substitute, walk

__all__ = [
    "ATOMIC", "Access", "Add", "Alloc", "And", "Assert", "Assume", "Bind", "BitAnd", "BitNot",
    "BitOr", "BitXor", "Break", "Broadcast", "Buffer", "Builder", "Call", "Cast", "Const",
    "Continue", "DType", "Div", "EQ", "Effects", "Evaluate", "Expr", "FloorDiv", "FloorMod",
    "For", "GE", "GT", "HostProgram", "INTRINSICS", "IRModule", "If", "IfThenElse", "Intrinsic",
    "Kernel", "LE", "LT", "Launch", "Load", "Max", "Min", "Mul", "NE", "NOTHING", "Neg", "Node",
    "Not", "Or", "Parallel", "PrimFunc", "READ", "Ramp", "Region", "Return", "Rewriter", "Role",
    "Scope", "Select", "Seq", "Shl", "Shr", "Stmt", "Store", "StringImm", "Sub", "TensorMap",
    "TileOp", "TileStmt", "TruncDiv", "TruncMod", "Var", "Visitor", "WRITE", "While",
    "address_of", "all_of", "as_bool", "as_expr", "atomic", "binary", "buffers_used", "call",
    "cast", "ceildiv", "const", "const_int", "effects", "expr_effects", "expr_text", "flatten",
    "free_vars", "fresh_session", "func_text", "if_then_else", "in_session", "is_const",
    "logical_and", "logical_not", "logical_or", "maximum", "minimum", "neg", "node", "promote",
    "read", "rebuild", "refold", "refresh", "reintern", "select", "seq", "session", "stmt_text",
    "substitute", "truncdiv", "truncmod", "walk", "write",
]
