"""What a lab may run: hostile commands of every shape are refused when the lab is read, with their place."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.lab.permitted import PERMITTED
from tonnage.documents.lab.review import review
from tonnage.documents.lab.steps import parse_lab
from tonnage.model.errors import ConfigError

FILES = {
    "a.yaml",
    "values.yaml",
    "a.yaml,/etc/passwd",
    "https:/example.invalid/a.yaml",
    "edit-last-applied",
    "kustomization.yaml",
    "-k",
    "x=y",
    "chart/Chart.yaml",
    "chart/templates/pod.yaml",
    "packed/Chart.yaml",
    "packed/charts/below.tgz",
    "schema/Chart.yaml",
    "schema/charts/below/values.schema.json",
}
"""What a stranger's folder may hold; names that mean more than themselves among it."""

HOSTILE = [
    # another cluster, or another user
    "kubectl get pods --kubeconfig /etc/passwd",
    "kubectl get pods --kubeconfig=/etc/passwd",
    "kubectl --kubeconfig=/etc/passwd get pods",
    "kubectl get --kubeconfig a.yaml pods",
    "kubectl get pods --context production",
    "kubectl get pods --context=production",
    "kubectl get pods --cluster=production",
    "kubectl get pods --user=admin",
    "kubectl get pods --server=https://192.0.2.1",
    "kubectl get pods -s https://192.0.2.1",
    "kubectl get pods -shttps://192.0.2.1",
    "kubectl get pods -s=https://192.0.2.1",
    "kubectl get pods -As https://192.0.2.1",
    "kubectl get pods --token=x",
    "kubectl get pods --as=system:admin",
    "kubectl get pods --as-group=system:masters",
    "kubectl get pods --username=x --password=y",
    "kubectl get pods --proxy-url=http://192.0.2.1",
    "kubectl get pods --insecure-skip-tls-verify",
    "kubectl get pods --certificate-authority=a.yaml",
    "kubectl get pods --client-key=a.yaml --client-certificate=a.yaml",
    "kubectl get pods --kuberc=a.yaml",
    "kubectl get pods --kube-config=a.yaml",
    "kubectl get pods --kubeconf=a.yaml",
    "kubectl get pods --patch_file=a.yaml",
    "helm list --kubeconfig a.yaml",
    "helm list --kube-context production",
    "helm list --kube-apiserver=https://192.0.2.1",
    "helm list --kube-token x",
    "helm list --kube-as-user admin",
    "tonnage status --kubeconfig a.yaml",
    "tonnage status --context production",
    "tonnage hardware a100-0 --state /tmp/other --reboot",
    # programs of this machine
    "kubectl config set-credentials x --exec-command=/bin/sh",
    "kubectl config view --raw",
    "kubectl config use-context production",
    "kubectl foo",
    "kubectl krew install x",
    "kubectl gpu status",
    "kubectl plugin list",
    "kubectl create foo",
    "kubectl 'create foo' x",
    "kubectl edit pod x",
    "kubectl apply edit-last-applied pod/x",
    "kubectl apply -f a.yaml edit-last-applied pod/x",
    "kubectl apply -Rf edit-last-applied",
    "kubectl apply -f edit-last-applied view-last-applied",
    "kubectl create -f a.yaml --edit",
    "kubectl diff -f a.yaml",
    "kubectl debug node/x --image=x",
    "kubectl kuberc set --section aliases",
    "kubectl apply -k .",
    "kubectl apply -k https://example.invalid/x",
    "kubectl apply -k=.",
    "kubectl apply -k.",
    "kubectl apply --kustomize=.",
    "kubectl apply --kustomize .",
    "kubectl kustomize . --enable-alpha-plugins",
    "kubectl get -k .",
    "helm plugin install https://example.invalid/x",
    "helm install x chart --post-renderer /bin/sh",
    "helm install x chart --post-renderer=/bin/sh",
    "helm x",
    "tonnage node",
    "tonnage runtime configure",
    "tonnage cdi generate --output /etc/cdi/x.yaml",
    "tonnage cdi char-links",
    "tonnage up --detach",
    "tonnage down",
    "tonnage lab run a.yaml",
    "tonnage topo --devices nvml --driver-root .",
    "tonnage doctor --root /",
    # files elsewhere, addresses, and names that mean more than one file
    "kubectl cp x:/etc/passwd /etc/passwd",
    "kubectl cp a.yaml x:/tmp",
    "kubectl apply -f /etc/passwd",
    "kubectl apply -f ../a.yaml",
    "kubectl apply -f ./../a.yaml",
    "kubectl apply -f chart/../../a.yaml",
    "kubectl apply -f .",
    "kubectl apply -f ''",
    "kubectl apply -f -",
    "kubectl apply -f '*.yaml'",
    "kubectl apply -f https://example.invalid/a.yaml",
    "kubectl apply -f https:/example.invalid/a.yaml",
    "kubectl apply -f a.yaml,/etc/passwd",
    "kubectl apply -fa.yaml -f/etc/passwd",
    "kubectl apply -f=/etc/passwd",
    "kubectl apply --filename=/etc/passwd",
    "kubectl apply --filename /etc/passwd",
    "kubectl apply -f a.yaml --filename=file:///etc/passwd",
    "kubectl apply -f -k",
    "kubectl apply -f",
    "kubectl apply -Rf /etc",
    "kubectl delete -Rf/etc",
    "kubectl patch pod x --patch-file /etc/passwd",
    "kubectl patch pod x --patch-file=/etc/passwd",
    "kubectl create configmap x --from-file=/etc/passwd",
    "kubectl create configmap x --from-file /etc",
    "kubectl create configmap x --from-file=k=/etc/passwd",
    "kubectl create configmap x --from-file=a.yaml,/etc/passwd",
    "kubectl create configmap x --from-file=a.yaml=/etc/passwd",
    "kubectl create configmap x --from-env-file=/etc/passwd",
    "kubectl create secret generic x --from-file=k=/root/.ssh/id_rsa",
    "kubectl create secret tls x --cert=/etc/passwd --key=/etc/passwd",
    "kubectl create secret docker-registry x --from-file=/root/.docker/config.json",
    "kubectl get pods -o jsonpath-file=/etc/passwd",
    "kubectl get pods -ojsonpath-file=/etc/passwd",
    "kubectl get pods -o=jsonpath-file=/etc/passwd",
    "kubectl get pods --output=jsonpath-file=/etc/passwd",
    "kubectl get pods -o go-template-file=/etc/passwd",
    "kubectl get pods -o custom-columns-file=/etc/passwd",
    "kubectl get pods -o templatefile=/etc/passwd",
    "kubectl get pods -o name -o jsonpath-file=/etc/passwd",
    "kubectl get pods -o jsonpath-file --template=/etc/passwd",
    "kubectl get pods --template=/etc/passwd",
    "kubectl get pods --cache-dir=/etc",
    "kubectl get pods --profile=cpu --profile-output=/etc/x",
    "kubectl get pods --raw=https://example.invalid/",
    "kubectl get --raw //example.invalid/",
    "kubectl cluster-info dump --output-directory=/etc",
    "kubectl exec -f /etc/passwd -- x",
    "helm install x /etc",
    "helm install x ../chart",
    "helm install x oci://example.invalid/chart",
    "helm install x https://example.invalid/chart.tgz",
    "helm install x stable/chart",
    "helm install x packed",
    "helm install x schema",
    "helm install",
    "helm install x chart --repo https://example.invalid",
    "helm install x chart --set-file k=/etc/passwd",
    "helm install x chart -f /etc/passwd",
    "helm install x chart -f values.yaml,/etc/passwd",
    "helm install x chart --values=https://example.invalid/v.yaml",
    "helm install x chart --dependency-update",
    "helm install x chart --enable-dns",
    "helm template x chart --output-dir /etc",
    "helm repo add x https://example.invalid",
    "helm pull oci://example.invalid/x",
    "helm package chart",
    "helm registry login example.invalid",
    "tonnage explain -f /etc/passwd",
    "tonnage explain -f=a.yaml",
    "tonnage explain -f -",
    "tonnage explain -f a.yaml --snapshot /etc/passwd",
    "tonnage explain --scheduler-config /etc/passwd -f a.yaml",
    "tonnage lint /etc/passwd",
    "tonnage lint -R /",
    "tonnage lint a.yaml --fix",
    "tonnage lint",
    "tonnage lint -- /etc/passwd",
    "tonnage mig plan --product A100-80 /etc/passwd",
    "tonnage mig lint ../a.yaml",
    "tonnage cdi validate",
    "tonnage cdi validate /etc/cdi",
    "tonnage simulate -f a.yaml",
    "tonnage simulate --add-workload /etc/passwd",
    "tonnage simulate --add-workload=../a.yaml=4",
    "tonnage simulate trace a.yaml /etc/passwd",
    "tonnage simulate --replay trace a.yaml a.yaml",
    "tonnage snapshot -o /etc/passwd",
    "tonnage snapshot --file /etc/passwd",
    "tonnage snapshot --file ../x.jsonl",
    "tonnage snapshot --file .bashrc",
    "tonnage snapshot --file kubeconfig",
    "tonnage status --snapshot unwritten.jsonl",
    "tonnage status --snapshot /etc/passwd",
    "tonnage status --snap a.yaml",
    "tonnage status -vo json --snapshot=/etc/passwd",
    # what listens or connects
    "kubectl proxy --address=0.0.0.0",
    "kubectl port-forward pod/x 8080 --address 0.0.0.0",
    "kubectl attach x",
    "tonnage doctor --agent-address 192.0.2.1:80",
    # options hidden behind others, separators and variables
    "kubectl get pods -n --kubeconfig=/etc/passwd",
    "kubectl get pods --selector --kubeconfig=/etc/passwd",
    "kubectl get pods -Anml --kubeconfig=/etc/passwd",
    "kubectl get -- pods --kubeconfig=/etc/passwd",
    "kubectl -- config view",
    "kubectl -v9 get pods",
    "kubectl get pods -v=9",
    "kubectl get pods --dry-run server --kubeconfig=/etc/passwd",
    "kubectl exec x --kubeconfig=/etc/passwd -- ls",
    "kubectl",
    "kubectl ''",
    "kubectl --help",
    "helm -n x install y /etc",
    "tonnage",
    "tonnage -v status",
    "tonnage status --verbose=x",
]

VARIABLE = [
    "kubectl $V pods",
    "kubectl create $V x",
    "kubectl get pods $V=x",
    "kubectl get pods --$V",
    "kubectl get pods --kube$V",
    "kubectl get pods -$V",
    "kubectl get pods -o $V",
    "kubectl get pods -o jsonpath$V",
    "kubectl apply -f $V",
    "kubectl apply -fchart/$V",
    "kubectl create configmap x --from-file=k=$V",
    "kubectl get --raw $V",
    "helm install x $V",
    "helm upgrade x chart -f $V",
    "tonnage lint $V",
    "tonnage $V a.yaml",
    "tonnage simulate --add-workload $V",
]


def lab(command: str) -> str:
    return (
        "name: x\ntitle: X\nscenario: inference\nsteps:\n"
        f"  - run: V=$(kubectl get pods -o name)\n  - run: {_quoted(command)}\n"
    )


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


@pytest.mark.parametrize("command", [*HOSTILE, *(c for c in VARIABLE if c != "kubectl get pods $V=x")])
def test_what_a_lab_may_not_run_is_refused_with_its_place(command: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lab(lab(command), source="lab.yaml", files=FILES)
    (problem,) = caught.value.problems
    assert problem.where.startswith("lab.yaml:6:5 steps[1].run")
    assert problem.what
    assert problem.why or problem.remedy


@pytest.mark.parametrize(
    "command",
    [
        "kubectl get pods -A -o wide",
        "kubectl get pods -nml -ojsonpath='{.items}' -l=a=b",
        "kubectl get pods $V=x",
        "kubectl get --raw /metrics",
        "kubectl apply -f a.yaml --server-side --dry-run=server",
        "kubectl apply -f=a.yaml",
        "kubectl create configmap x --from-file=key=a.yaml --from-literal=a=b",
        "kubectl exec x -n ml -it -- sh -c 'ls --kubeconfig /etc'",
        "kubectl logs -f x --tail=-1",
        "kubectl label node $V a=b c-",
        "kubectl run x --image=y -- sleep 5",
        "helm install x chart -f values.yaml --set a=b",
        "helm template chart",
        "helm uninstall x -n ml",
        "tonnage lint a.yaml",
        "tonnage simulate --add-workload a.yaml=4",
        "tonnage explain pod $V -v -o json",
    ],
)
def test_what_a_lab_may_run_is_read(command: str) -> None:
    parse_lab(lab(command), source="lab.yaml", files=FILES)


PERMITTED_OPTIONS = {
    "kubectl get": ["-A", "--no-headers", "-n ml", "-nml", "-o json", "-l a=b", "--selector=a", "-f a.yaml"],
    "kubectl delete": ["--all", "--wait=false", "-n ml", "--dry-run=server", "-f a.yaml", "--grace-period 1"],
    "kubectl exec": ["-i", "-it", "-c x", "-n=ml"],
    "helm upgrade": ["-i", "--wait", "-n ml", "--set a=b", "-f values.yaml"],
    "tonnage explain": ["-v", "-n ml", "-o json", "-f a.yaml"],
}

REFUSED = [
    ["--kubeconfig", "a.yaml"],
    ["--kubeconfig=a.yaml"],
    ["--context=x"],
    ["--as=x"],
    ["-k", "."],
    ["-k."],
    ["-s=https://192.0.2.1"],
    ["--post-renderer=x"],
    ["-f", "/etc/passwd"],
    ["-f/etc/passwd"],
    ["--filename=../a.yaml"],
    ["-o", "jsonpath-file=a.yaml"],
    ["-ogo-template-file=a.yaml"],
    ["--template=x"],
    ["--fix"],
]


@given(st.data())
def test_no_order_of_options_hides_a_refused_one(data: st.DataObject) -> None:
    called = data.draw(st.sampled_from(sorted(PERMITTED_OPTIONS)))
    around = data.draw(st.lists(st.sampled_from(PERMITTED_OPTIONS[called]), max_size=6))
    refused = data.draw(st.sampled_from(REFUSED))
    words = [option.split() for option in around]
    words.insert(data.draw(st.integers(0, len(words))), refused)
    for name in data.draw(st.lists(st.sampled_from(["pod", "x"]), max_size=2)):
        words.insert(data.draw(st.integers(0, len(words))), [name])
    command = " ".join([called, *(shlex.quote(word) for group in words for word in group)])
    with pytest.raises(ConfigError):
        parse_lab(lab(command), source="lab.yaml", files=FILES)


@given(
    st.sampled_from(sorted(PERMITTED)),
    st.lists(st.text(st.sampled_from("-=/.,akfnosA: "), max_size=6), max_size=6),
)
def test_whatever_is_permitted_names_no_file_outside(program: str, words: list[str]) -> None:
    for subcommand in PERMITTED[program]:
        command = f"{program} {subcommand} {shlex.join(words)}"
        try:
            read = parse_lab(lab(command), source="lab.yaml", files=FILES)
        except ConfigError:
            continue
        assert set(review(read.steps[1].command).files) <= FILES - {"a.yaml,/etc/passwd", "-k", "x=y"}
