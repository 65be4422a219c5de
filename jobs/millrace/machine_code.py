"""Machine code for loops that Python is too slow for: written in LLVM's language, compiled by llvmlite in the process.

It takes 20 to 100 ms, no compiler of the machine's, and no file that would have to be kept.
"""

from __future__ import annotations

import ctypes
from typing import Any


class MachineCodeUnavailableError(Exception):
    """This machine cannot compile or run the loops; the text is the reason."""


def compiled(source: str) -> Any:
    """Compile a module for this processor.

    Args:
        source: LLVM assembly.

    Returns:
        The engine that owns the machine code: keep it as long as a function of it may be called.

    Raises:
        MachineCodeUnavailableError: llvmlite is missing, or memory may not be made executable here.
    """
    if ctypes.sizeof(ctypes.c_void_p) != ctypes.sizeof(ctypes.c_int64):
        raise MachineCodeUnavailableError("this machine has no addresses of 64 bits")
    try:
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(
            cpu=binding.get_host_cpu_name(), opt=3, codemodel="jitdefault", jit=True
        )
        module = binding.parse_assembly(source)
        module.verify()
        builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
        builder.getModulePassManager().run(module, builder)
        engine = binding.create_mcjit_compiler(module, machine)
        engine.finalize_object()
    except (ImportError, OSError, RuntimeError) as error:
        raise MachineCodeUnavailableError(f"llvmlite cannot compile: {error}") from error
    return engine


def function(engine: Any, name: str, arguments: str, result: Any = None) -> Any:
    """A function of a compiled module, to be called without the lock of Python's interpreter.

    Args:
        engine: what :func:`compiled` gave.
        name: of the function.
        arguments: a letter for each: ``n`` for a 64-bit integer, ``p`` for an address.
        result: the type that it returns, of ``ctypes``; nothing by default.
    """
    types = [ctypes.c_int64 if code == "n" else ctypes.c_void_p for code in arguments]
    return ctypes.CFUNCTYPE(result, *types)(engine.get_function_address(name))
