"""Door to the run-time compiler and the driver of CUDA, with others in their place."""

import ctypes
import re
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from skconvgp.backends import _nvrtc as door
from skconvgp.backends._nvrtc import (
    CudaKernel,
    compile_cuda,
    knows_architecture,
    load_kernel,
    missing_compiler,
)

GPU = torch.device("cuda", 1)
STREAM, MODULE, FUNCTION = 0x5EED, 0xA0, 0xB0
SOURCE, LOG = "extern ...", b'skconvgp.cu(1): error: expected a ";"'
KNOWN = 80, 90, 100  # compute capabilities, times ten


@pytest.fixture(autouse=True)
def forgotten():
    """Let no test find what another one has loaded."""
    doors = [compile_cuda, load_kernel, door._compiler, door._driver]
    for cached in doors:
        cached.cache_clear()
    yield
    for cached in doors:
        cached.cache_clear()


class Driver:
    """Takes down what it is asked for; fails with a code, and says why if it can.

    `types` are those of the arguments of a kernel, whose values it reads.
    """

    def __init__(self, *, types=(), code=0, reason=None):
        self.types, self.code, self.reason = types, code, reason
        self.launches, self.binaries, self.names = [], [], []
        self.device = None

    def cuLaunchKernel(self, function, *rest):
        *sizes, stream, pointers, extra = rest
        places = zip(self.types, pointers, strict=True)
        self.launches.append(
            {
                "device": self.device,
                "function": function.value,
                "grid": sizes[:3],
                "block": sizes[3:6],
                "shared_bytes": sizes[6],
                "stream": stream.value,
                "values": [kind.from_address(place).value for kind, place in places],
                "extra": extra,
            }
        )
        return self.code

    def cuModuleLoadData(self, module, binary):
        self.binaries.append((self.device, binary))
        module._obj.value = MODULE
        return self.code

    def cuModuleGetFunction(self, function, module, name):
        self.names.append((module.value, name))
        function._obj.value = FUNCTION
        return self.code

    def cuGetErrorString(self, code, message):
        assert code == self.code
        message._obj.value = self.reason
        return 0


class Compiler:
    """Yields a binary that names the source, or fails with the codes it is given."""

    def __init__(self, *, create=0, compile_it=0):
        self.codes = create, compile_it
        self.options, self.n_compiled, self.n_programs = [], 0, 0

    def nvrtcCreateProgram(self, program, text, name, n_headers, headers, includes):
        assert (n_headers, headers, includes) == (0, None, None)
        assert name.endswith(b".cu")
        if not self.codes[0]:
            self.text, self.n_programs, program._obj.value = text, 1, 7
        return self.codes[0]

    def nvrtcCompileProgram(self, program, n_options, options):
        assert (program.value, n_options) == (7, len(options))
        self.options, self.n_compiled = list(options), self.n_compiled + 1
        return self.codes[1]

    # What the compiler says ends with a zero, and the zero counts.
    def nvrtcGetProgramLogSize(self, program, size):
        size._obj.value = len(LOG) + 1

    def nvrtcGetProgramLog(self, program, buffer):
        buffer[: len(LOG) + 1] = LOG + b"\0"

    def nvrtcGetCUBINSize(self, program, size):
        size._obj.value = len(self.binary)

    def nvrtcGetCUBIN(self, program, buffer):
        buffer[: len(self.binary)] = self.binary

    def nvrtcGetNumSupportedArchs(self, n):
        n._obj.value = len(KNOWN)

    def nvrtcGetSupportedArchs(self, known):
        known[:] = KNOWN

    def nvrtcDestroyProgram(self, program):
        assert program._obj.value == 7
        self.n_programs -= 1

    @property
    def binary(self):
        return b"\x7fELF\0" + self.text + b"\0"


@pytest.fixture
def entered_threads(monkeypatch):
    """Return the list of devices that threads were bound to."""
    monkeypatch.setattr(door, "_THREAD", threading.local())
    return []


@pytest.fixture
def use(monkeypatch, entered_threads):
    """Return what puts a driver and a compiler in place, on a machine with a GPU."""

    def use(driver=None, compiler=None):
        @contextmanager
        def entered(device):
            driver.device = device
            yield
            driver.device = None

        def stream(device):
            return SimpleNamespace(cuda_stream=STREAM + device.index)

        monkeypatch.setattr(torch.cuda, "device", entered)
        monkeypatch.setattr(torch.cuda, "current_stream", stream)
        monkeypatch.setattr(torch.cuda, "synchronize", entered_threads.append)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        monkeypatch.setattr(torch.version, "cuda", "12.8")
        monkeypatch.setattr(door, "_driver", lambda: driver)
        monkeypatch.setattr(door, "_compiler", lambda version: compiler)

    return use


# ---- launches


def test_launch_passes_everything_in_its_place(use):
    pointer, number = ctypes.c_void_p, ctypes.c_int
    driver = Driver(types=[pointer, number, pointer, number])
    use(driver)
    one, two = torch.rand(3), torch.rand(4, dtype=torch.float64)
    CudaKernel(FUNCTION, GPU).launch(70_000, 128, [one, 5, two, -1])
    assert driver.launches == [
        {
            "device": GPU,
            "function": FUNCTION,
            "grid": [70_000, 1, 1],
            "block": [128, 1, 1],
            "shared_bytes": 0,
            "stream": STREAM + GPU.index,
            "values": [one.data_ptr(), 5, two.data_ptr(), -1],
            "extra": None,
        }
    ]


def test_tensor_is_passed_from_where_it_begins(use):
    driver = Driver(types=[ctypes.c_void_p])
    use(driver)
    whole = torch.rand(6, 2)
    CudaKernel(FUNCTION, GPU).launch(1, 32, [whole[2:]])
    assert driver.launches[0]["values"] == [whole.data_ptr() + 2 * 2 * 4]


@pytest.mark.parametrize(
    ("reason", "message"),
    [(b"invalid argument", "CUDA: invalid argument."), (None, "CUDA: error 701.")],
)
def test_launch_that_fails_says_why(reason, message, use):
    use(Driver(code=701, reason=reason))
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"):
        CudaKernel(FUNCTION, GPU).launch(1, 32, [])


# ---- compiling and loading


def test_compiled_code_is_complete_and_for_the_card(use):
    compiler = Compiler()
    use(compiler=compiler)
    assert compile_cuda(SOURCE, "sm_90", "12.8") == compiler.binary
    assert compiler.text == SOURCE.encode()
    assert b"--gpu-architecture=sm_90" in compiler.options
    assert b"--fmad=false" in compiler.options
    assert compiler.n_programs == 0


def test_source_that_does_not_compile_is_an_error_with_what_the_compiler_said(use):
    compiler = Compiler(compile_it=6)
    use(compiler=compiler)
    message = f"The kernel does not compile for sm_90: {LOG.decode()}"
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"):
        compile_cuda(SOURCE, "sm_90", "12.8")
    assert compiler.n_programs == 0


def test_compiler_that_does_not_work_is_an_error(use):
    use(compiler=Compiler(create=1))
    with pytest.raises(RuntimeError, match=r"cannot be used: error 1\.$"):
        compile_cuda(SOURCE, "sm_90", "12.8")


def test_kernel_is_loaded_on_its_device(use):
    driver, compiler = Driver(), Compiler()
    use(driver, compiler)
    assert load_kernel(SOURCE, "skconvgp_cross", GPU) == CudaKernel(FUNCTION, GPU)
    assert driver.binaries == [(GPU, compiler.binary)]
    assert driver.names == [(MODULE, b"skconvgp_cross")]
    assert b"--gpu-architecture=sm_90" in compiler.options


def test_kernel_is_compiled_once_and_loaded_once_for_each_device(use):
    driver, compiler = Driver(), Compiler()
    use(driver, compiler)
    other = torch.device("cuda", 0)
    for device in (GPU, other, GPU, other):
        load_kernel(SOURCE, "skconvgp_cross", device)
    assert compiler.n_compiled == 1
    assert [device for device, _ in driver.binaries] == [GPU, other]


def test_binary_that_the_driver_refuses_is_an_error(use):
    use(Driver(code=209, reason=b"no kernel image for the device"), Compiler())
    with pytest.raises(RuntimeError, match=r"^CUDA: no kernel image for the device\.$"):
        load_kernel(SOURCE, "skconvgp_cross", GPU)


def test_memory_that_runs_out_is_the_error_of_torch(use):
    use(Driver(code=2, reason=b"out of memory"), Compiler())
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"^CUDA: out of memory\.$"):
        load_kernel(SOURCE, "skconvgp_cross", GPU)


def test_each_thread_is_bound_to_each_device_once(use, entered_threads):
    use(Driver())
    other = torch.device("cuda", 0)

    def work():
        for device in (GPU, other, GPU, other):
            CudaKernel(FUNCTION, device).launch(1, 32, [])

    work()
    assert entered_threads == [GPU, other]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert entered_threads == [GPU, other] * 2


@pytest.mark.parametrize(("capability", "is_known"), [((9, 0), True), ((99, 9), False)])
def test_compiler_may_be_older_than_the_card(capability, is_known, use, monkeypatch):
    use(compiler=Compiler())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert knows_architecture(GPU) == is_known


# ---- finding libraries


@pytest.fixture
def libraries(monkeypatch):
    """Return the set of libraries that can be loaded, empty at first."""
    present = set()

    def load(name):
        if name not in present:
            raise OSError(f"{name}: cannot open shared object file")
        return name

    monkeypatch.setattr(door.ctypes, "CDLL", load)
    return present


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Return where packages of NVIDIA lie."""
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(door, "find_spec", {"nvidia": spec}.get)
    return tmp_path


LINUX, WINDOWS = "linux", "win32"


@pytest.mark.parametrize(
    ("platform", "version", "folder", "name"),
    [
        (LINUX, "12.8", "cuda_nvrtc/lib", "libnvrtc.so.12"),
        (LINUX, "12.8", "cuda_nvrtc/lib", "libnvrtc.so"),
        (LINUX, "13.0", "cu13/lib", "libnvrtc.so.13"),
        (WINDOWS, "12.8", "cuda_nvrtc/bin", "nvrtc64_120_0.dll"),
        (WINDOWS, "13.0", "cu13/bin/x86_64", "nvrtc64_130_0.dll"),
    ],
)
def test_compiler_is_found_in_a_package(
    platform, version, folder, name, libraries, packages, monkeypatch
):
    monkeypatch.setattr(door.sys, "platform", platform)
    monkeypatch.setattr(torch.version, "cuda", version)
    assert missing_compiler() != ""
    (packages / folder).mkdir(parents=True)
    path = str(packages / folder / name)
    libraries.add(path)
    assert door._compiler(version) == path
    assert missing_compiler() == ""


def test_compiler_of_a_package_comes_before_that_of_the_system(libraries, packages):
    libraries |= {"libnvrtc.so", "libnvrtc.so.12"}
    assert door._compiler("12.8") == "libnvrtc.so.12"
    (packages / "cuda_nvrtc/lib").mkdir(parents=True)
    path = str(packages / "cuda_nvrtc/lib/libnvrtc.so.12")
    libraries.add(path)
    door._compiler.cache_clear()
    assert door._compiler("12.8") == path


def test_parts_of_the_compiler_beside_it_are_loaded(libraries, packages, monkeypatch):
    folder = packages / "cu13/lib"
    folder.mkdir(parents=True)
    part = folder / "libnvrtc-builtins.so.13.0"
    part.touch()
    libraries |= {str(folder / "libnvrtc.so.13"), str(part)}
    load, loaded = door.ctypes.CDLL, []
    monkeypatch.setattr(
        door.ctypes, "CDLL", lambda name: loaded.append(name) or load(name)
    )
    door._compiler("13.0")
    assert loaded[-2:] == [str(folder / "libnvrtc.so.13"), str(part)]


def test_compiler_of_another_version_is_not_taken(libraries, packages):
    libraries.add("libnvrtc.so.11")
    with pytest.raises(OSError, match=r"^libnvrtc\.so\.12: cannot open"):
        door._compiler("12.8")


def test_compiler_is_looked_for_where_there_are_no_packages(libraries, monkeypatch):
    monkeypatch.setattr(door, "find_spec", lambda name: None)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    reason = missing_compiler()
    assert reason.startswith("the run-time compiler of CUDA was not found")
    assert "libnvrtc.so.12: cannot open shared object file" in reason


def test_torch_without_cuda_has_no_compiler(libraries, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    libraries.add("libnvrtc.so")
    assert missing_compiler() == "this torch was built without CUDA"


@pytest.mark.parametrize(
    ("platform", "name"), [(LINUX, "libcuda.so.1"), (WINDOWS, "nvcuda.dll")]
)
def test_driver_is_that_of_the_system(platform, name, libraries, monkeypatch):
    monkeypatch.setattr(door.sys, "platform", platform)
    libraries.add(name)
    assert door._driver() == name
