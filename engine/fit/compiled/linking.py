"""Compiling: the machine code of each file of loops, as one object that stands by itself.

numba gives LLVM's code of every loop (`inspect_llvm`). What serves calls from Python is cut off, and memory comes from
the C library; so whoever loads the object needs no numba, which takes ten times as long to bring in.
"""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm

from engine.errors import InternalError
from engine.fit.compiled.calls import Kind

_KNOWN = ("malloc", "free", "memcpy", "memset", "memmove")
"""Functions of the C library that an object may need."""
_RUNTIME = """
declare ptr @malloc(i64)
declare void @free(ptr)

; A block: how many use it, three words of numba's, its length; the array behind. numba/core/runtime/nrt.cpp, MemInfo.
define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %step = zext i32 %align to i64
  %before = add i64 %step, 48
  %all = add i64 %before, %size
  %block = call ptr @malloc(i64 %all)
  %is_none = icmp eq ptr %block, null
  br i1 %is_none, label %end, label %fill
fill:
  store i64 1, ptr %block
  %destructor = getelementptr i8, ptr %block, i64 8
  store ptr null, ptr %destructor
  %told = getelementptr i8, ptr %block, i64 16
  store ptr null, ptr %told
  %head = ptrtoint ptr %block to i64
  %past = add i64 %head, %before
  %mask = sub i64 0, %step
  %begin = and i64 %past, %mask
  %data = inttoptr i64 %begin to ptr
  %at = getelementptr i8, ptr %block, i64 24
  store ptr %data, ptr %at
  %length = getelementptr i8, ptr %block, i64 32
  store i64 %size, ptr %length
  br label %end
end:
  ret ptr %block
}

define void @NRT_MemInfo_call_dtor(ptr %block) {
  call void @free(ptr %block)
  ret void
}

define ptr @NRT_Allocate(i64 %size) {
  %block = call ptr @malloc(i64 %size)
  ret ptr %block
}

define void @NRT_Free(ptr %block) {
  call void @free(ptr %block)
  ret void
}

define void @{release}(ptr %block) {
  %is_none = icmp eq ptr %block, null
  br i1 %is_none, label %end, label %count
count:
  %users = load i64, ptr %block
  %left = sub i64 %users, 1
  store i64 %left, ptr %block
  %is_last = icmp eq i64 %left, 0
  br i1 %is_last, label %last, label %end
last:
  call void @free(ptr %block)
  br label %end
end:
  ret void
}
"""


def machine() -> llvm.TargetMachine:
    """The processor that code is made for, and loaded on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, codemodel="jitdefault", jit=True
    )


def release_of(module: str) -> str:
    """What the object of a module calls the function that lets go of an array which a loop gave."""
    return f"release_{module.rpartition('.')[2]}"


def compiled_source(module: str) -> tuple[bytes, dict[str, Any]]:
    """Compile the loops of a module.

    Returns: an object, as a linker takes it; for each loop of the module's `__all__`: its `symbol`; what it
    `takes` and `gives`, as `Kind` says it; whether that `is_tuple`.
    """
    source, told = import_module(module), {}
    release = release_of(module)
    whole = llvm.parse_assembly(_RUNTIME.replace("{release}", release))
    for name in source.__all__:
        loop = getattr(source, name)
        ((signature, made),) = loop.overloads.items()
        symbol = made.fndesc.llvm_func_name
        whole.link_in(_alone(loop.inspect_llvm(signature), symbol))
        told[name] = {"symbol": symbol, **_told(signature, made.signature.return_type)}
        _check_words(whole.get_function(symbol), told[name]["takes"])
    _without_the_unused(whole, {release, *(one["symbol"] for one in told.values())})
    return machine().emit_object(whole), told


def _told(takes: tuple[Any, ...], result: Any) -> dict[str, Any]:
    """What a loop takes and gives, of numba's types."""
    is_tuple = hasattr(result, "types")
    gives = [*result.types] if is_tuple else [] if str(result) == "none" else [result]
    for one in map(_kind, gives):
        if not one.is_dense or one == Kind(dtype="uint64"):
            raise InternalError(f"a loop gives {result}, which is not taken over")
    return {
        "takes": [asdict(_kind(one)) for one in takes],
        "gives": [asdict(_kind(one)) for one in gives],
        "is_tuple": is_tuple,
    }


def _kind(of: Any) -> Kind:
    """One of numba's types."""
    if not hasattr(of, "ndim"):
        return Kind(dtype=str(of))
    return Kind(dtype=str(of.dtype), ndim=of.ndim, is_dense=of.layout == "C")


def _check_words(function: llvm.ValueRef, takes: list[dict[str, Any]]) -> None:
    """Whether numba hands arguments over as `calls` does."""
    wanted = ["ptr", "ptr"]  # what it gives, and what went wrong
    for one in takes:
        wanted += Kind(**one).llvm
    if (found := [str(one.type) for one in function.arguments]) != wanted:
        raise InternalError(f"numba hands over {found} to {function.name}, not {wanted}")


def _alone(code: str, symbol: str) -> llvm.ModuleRef:
    """A loop, and what it calls; nobody else sees the latter, or what serves calls from Python."""
    module = llvm.parse_assembly(code)
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"
    _drop_the_unused(module)
    return module


def _without_the_unused(module: llvm.ModuleRef, kept: set[str]) -> None:
    """Leave what is kept and what that needs."""
    for function in module.functions:
        if not function.is_declaration and function.name not in kept:
            function.linkage = "internal"
    _drop_the_unused(module)
    needed = {one.name for one in module.functions if one.is_declaration}
    more = {name for name in needed if not name.startswith("llvm.")} - {*_KNOWN}
    if more:
        raise InternalError(f"compiled loops need {', '.join(sorted(more))}")


def _drop_the_unused(module: llvm.ModuleRef) -> None:
    """Remove functions that nobody can call."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine(), llvm.create_pipeline_tuning_options(0)))
