"""What containers use of a device: whose it is, how sure that is, and that nobody uses what is not there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.exporter.readings import TimedSample, entities_of
from tonnage.decide.node.exporter.shares import DeviceShare, fractions_of, shares_of
from tonnage.decide.node.exporter.usage import (
    DeviceActivity,
    ProcessActivity,
    activity_of,
    uses_of,
)
from tonnage.model.catalog.mig import mig_models
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, Sample
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.mig.geometry import all_counts
from tonnage.model.node.pod_usage import Amount, Certainty, DeviceUse, DeviceUser
from tonnage.model.node.telemetry import GpuEntity, InstanceEntity

EXACT, PROCESS, EVEN = Certainty.EXACT, Certainty.PROCESS, Certainty.EVEN
GPU = GpuEntity(0, "GPU-0", "00000000:01:00.0", "NVIDIA H100")
SHARED = "nvidia.com/gpu.shared"


def user(pod: str) -> DeviceUser:
    return DeviceUser("ml", pod, "main", "GPU-0", resource=SHARED)


def shared(*pods: str, replicas: int = 4) -> tuple[DeviceShare, ...]:
    holds = [Hold(SHARED, (f"GPU-0::{n}",), "ml", pod, "main") for n, pod in enumerate(pods)]
    return shares_of(holds, [GPU], {(SHARED, "GPU-0"): replicas})["GPU-0", None]


BUSY = DeviceActivity(30, busy=0.9, energy_j=9000, memory_bytes=1000)


@pytest.mark.parametrize(
    ("pods", "processes", "expected"),
    [
        pytest.param(
            ["a"],
            None,
            {"a": (Amount(7.5, EVEN), Amount(27, EXACT), Amount(9000, EXACT), Amount(1000, EXACT))},
            id="one pod alone has all that the device does, and the time of its replica",
        ),
        pytest.param(
            ["a", "b", "b"],
            None,
            {
                "a": (Amount(7.5, EVEN), Amount(9, EVEN), Amount(3000, EVEN), Amount(1000 / 3, EVEN)),
                "b": (Amount(15, EVEN), Amount(18, EVEN), Amount(6000, EVEN), Amount(2000 / 3, EVEN)),
            },
            id="without processes what is used is divided by the replicas that are held",
        ),
        pytest.param(
            ["a", "b"],
            [
                ProcessActivity(user("a"), 600, 0.2),
                ProcessActivity(user("a"), 100, 0.1),
                ProcessActivity(None, 50, 0.3),
            ],
            {
                "a": (Amount(7.5, EVEN), Amount(9, PROCESS), Amount(4500, PROCESS), Amount(700, PROCESS)),
                "b": (Amount(7.5, EVEN), Amount(0, PROCESS), Amount(0, PROCESS), Amount(0, PROCESS)),
            },
            id="SHR-7: by processes: who runs none is idle, and what a process of nobody uses is nobody's",
        ),
        pytest.param(
            ["a", "b"],
            [ProcessActivity(user("a"), 600, 0.9), ProcessActivity(user("b"), 600, 0.9)],
            {
                pod: (Amount(7.5, EVEN), Amount(13.5, PROCESS), Amount(4500, PROCESS), Amount(500, PROCESS))
                for pod in "ab"
            },
            id="processes that say more than the device are scaled",
        ),
        pytest.param(
            ["a", "b"],
            [ProcessActivity(user("a"), 600), ProcessActivity(user("b"), None)],
            {
                "a": (Amount(7.5, EVEN), Amount(13.5, EVEN), Amount(4500, EVEN), Amount(600, PROCESS)),
                "b": (Amount(7.5, EVEN), Amount(13.5, EVEN), Amount(4500, EVEN), None),
            },
            id="processes without utilisation: that is divided evenly; memory that is not told is left out",
        ),
    ],
)
def test_what_each_uses_of_a_shared_gpu(
    pods: list[str],
    processes: Sequence[ProcessActivity] | None,
    expected: dict[str, tuple[Amount | None, ...]],
) -> None:
    uses = list(uses_of(BUSY, shared(*pods), processes))
    assert {use.user.pod: _rounded(use) for use in uses} == {
        pod: tuple(map(_round, amounts)) for pod, amounts in expected.items()
    }


def _rounded(use: DeviceUse) -> tuple[Amount | None, ...]:
    return tuple(map(_round, (use.seconds, use.compute, use.energy, use.memory)))


def _round(amount: Amount | None) -> Amount | None:
    return None if amount is None else Amount(round(amount.value, 6), amount.certainty)


def test_an_exclusive_gpu_is_its_pods_in_full() -> None:
    shares = shares_of([Hold("nvidia.com/gpu", ("GPU-0",), "ml", "a", "main")] * 2, [GPU], {})
    (use,) = uses_of(BUSY, shares["GPU-0", None], [])
    assert (use.seconds, use.ratio) == (Amount(30, EXACT), Amount(0.9, EXACT))


def test_a_claim_has_its_name_in_place_of_a_resource() -> None:
    hold = Hold("ml/gpu-claim", ("GPU-0",), "ml", "a", "main", kind=HoldKind.CLAIM)
    (share,) = shares_of([hold], [GPU], {})["GPU-0", None]
    assert (share.user.resource, share.user.claim) == ("", "ml/gpu-claim")


A100 = Device(
    "GPU-0",
    0,
    "NVIDIA A100-SXM4-80GB",
    81_920,
    mig_enabled=True,
    migs=(
        MigDevice("MIG-1", 0, "3g.40gb", 1, 0, 40_192, gpu_slices=3),
        MigDevice("MIG-2", 1, "1g.10gb", 9, 0, 9_856, gpu_slices=1),
    ),
)


def test_a_mig_device_counts_as_its_part_of_the_gpu() -> None:
    """The driver measures energy of the whole GPU alone, so that is divided."""
    entities = entities_of(Inventory((A100,)))
    shares = shares_of([Hold("nvidia.com/mig-3g.40gb", ("MIG-1",), "ml", "a", "main")], entities, {})
    parts = fractions_of(A100)
    samples = {
        "GPU-0": timed({"energy_mj": 10_000}, {"energy_mj": 1_000}),
        "MIG-1": timed({"memory_used_mib": 100, "graphics_active_ratio": 0.5}, {}),
    }
    activity = activity_of(entities[0], samples, parts[1])
    assert activity is not None
    (use,) = uses_of(activity, shares["GPU-0", 1])
    assert (use.user.gpu_instance, use.user.profile) == ("1", "3g.40gb")
    half = 40_192 / 81_920
    assert _rounded(use) == (
        Amount(round(30 * half, 6), EXACT),
        Amount(round(15 * half, 6), EXACT),
        Amount(round(9 * half, 6), EVEN),
        Amount(100 << 20, EXACT),
    )
    assert use.ratio == Amount(0.5, EXACT)


def timed(now: dict[str, float], before: dict[str, float], seconds: float = 30) -> TimedSample:
    return TimedSample(Sample("", now), 100, TimedSample(Sample("", before), 100 - seconds))


@pytest.mark.parametrize(
    ("now", "before", "energy_j"),
    [
        pytest.param({"energy_mj": 5000}, {"energy_mj": 2000}, 3.0, id="by the device's counter"),
        pytest.param({"energy_mj": 10, "power_w": 99.0}, {"energy_mj": 5000}, None, id="it began anew"),
        pytest.param({"power_w": 100.0}, {}, 3000.0, id="by its power where it has no counter"),
        pytest.param({}, {}, None, id="it tells neither"),
    ],
)
def test_energy_between_two_readings(
    now: dict[str, float], before: dict[str, float], energy_j: float | None
) -> None:
    activity = activity_of(GPU, {"GPU-0": timed(now, before)})
    assert activity is not None
    assert activity.energy_j == energy_j


def test_nothing_follows_from_a_first_reading_and_nothing_from_none() -> None:
    first = activity_of(GPU, {"GPU-0": TimedSample(Sample("GPU-0", {"power_w": 5.0}), 1)})
    assert first is not None
    assert (first.seconds, first.energy_j) == (0, None)
    assert activity_of(GPU, {}) is None


UNIT = st.floats(0, 1)
AMOUNT = st.floats(0, 1e12)
PROCESSES = st.lists(
    st.builds(
        ProcessActivity,
        st.sampled_from([None, *map(user, "abc")]),
        st.none() | st.integers(0, 1 << 40),
        st.none() | UNIT,
    ),
    max_size=8,
)


@given(
    activity=st.builds(
        DeviceActivity,
        seconds=st.floats(0, 1e6),
        fraction=UNIT,
        busy=st.none() | UNIT,
        energy_j=st.none() | AMOUNT,
        memory_bytes=st.none() | st.integers(0, 1 << 40),
    ),
    pods=st.lists(st.sampled_from("abc"), min_size=1, max_size=8),
    replicas=st.integers(1, 12),
    processes=st.none() | PROCESSES,
)
def test_sums_over_pods_never_exceed_the_device(
    activity: DeviceActivity,
    pods: list[str],
    replicas: int,
    processes: list[ProcessActivity] | None,
) -> None:
    uses = list(uses_of(activity, shared(*pods, replicas=replicas), processes))
    whole = activity.fraction * activity.seconds
    busy = 1.0 if activity.busy is None else activity.busy
    bounds: tuple[tuple[Callable[[DeviceUse], Amount | None], float], ...] = (
        (lambda use: use.seconds, whole),
        (lambda use: use.compute, whole * busy),
        (lambda use: use.energy, math.inf if activity.energy_j is None else activity.energy_j),
        (lambda use: use.ratio, busy),
        (lambda use: use.memory, math.inf if activity.memory_bytes is None else activity.memory_bytes),
    )
    for of, most in bounds:
        amounts = [amount.value for use in uses if (amount := of(use)) is not None]
        assert all(amount >= 0 for amount in amounts)
        assert sum(amounts) <= most * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("model", mig_models(), ids=lambda model: model.name)
def test_instances_of_any_layout_are_at_most_the_gpu(model: object) -> None:
    from tonnage.model.catalog.mig import MigModel

    assert isinstance(model, MigModel)
    memory_mib = model.memory * 10_000
    for layout in all_counts(model, full=True):
        names = [name for name, count in layout for _ in range(count)]
        migs = tuple(
            MigDevice(
                f"MIG-{place}",
                place,
                name,
                place,
                0,
                10_000 * model.profiles[name].memory,
                gpu_slices=model.profiles[name].compute,
            )
            for place, name in enumerate(names)
        )
        device = Device("GPU-0", 0, f"NVIDIA {model.name}", memory_mib, mig_enabled=True, migs=migs)
        assert 0 < sum(fractions_of(device).values()) <= 1 + 1e-9


def test_two_compute_instances_of_an_instance_are_shared_by_those_who_have_them() -> None:
    entity = InstanceEntity(GPU, 2, "3g.40gb", ("MIG-a", "MIG-b"))
    holds = [Hold("r", (f"MIG-{name}",), "ml", name, "main") for name in "ab"]
    shares = shares_of(holds, [entity], {})["GPU-0", 2]
    assert [(share.share, share.part, share.alone) for share in shares] == [(0.5, 0.5, False)] * 2
