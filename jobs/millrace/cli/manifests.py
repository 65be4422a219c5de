"""The command ``millrace manifests``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from millrace.cli.console import messages, out
from millrace.cli.environment import fill_in_environment, named_spec
from millrace.errors import ConfigurationError


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog="Example: [bold]millrace manifests fraud-detection | kubectl apply -f -[/]")(manifests)


def manifests(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="Specification: a YAML file, or a name in config/apps.")],
    directory: Annotated[
        Path | None,
        typer.Option(help="Write manifests.yaml and the templates of the pods there instead.", file_okay=False),
    ] = None,
    kubernetes_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Version of the cluster, such as 1.30: see first whether all of it is what its schema takes. Needs "
            "millrace[kubernetes].",
        ),
    ] = None,
) -> None:
    """Print what Kubernetes is given of an application whose launcher is kubernetes.

    The driver's account and its rights are to be applied once, by an operator who may. A deployment applies everything
    else itself, with a Secret for the control plane's token, which is not printed.
    """
    from millrace.install.launchers.kubernetes import account, pod_templates, specification_map
    from millrace.install.which_spec import Use

    fill_in_environment()
    file = named_spec(spec, Use.DEPLOYMENT)
    driver, executor = pod_templates(file.spec)
    documents = [*account(file.spec), specification_map(file)]
    if kubernetes_version is not None:
        check_against_schema([*documents, driver, executor], kubernetes_version)
    text = yaml.safe_dump_all(documents, sort_keys=False)
    if directory is None:
        out.print(text, markup=False, soft_wrap=True, end="", highlight=False)
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("manifests.yaml", text),
        ("driver-pod.yaml", yaml.safe_dump(driver, sort_keys=False)),
        ("executor-pod.yaml", yaml.safe_dump(executor, sort_keys=False)),
    ):
        (directory / name).write_text(content)
        messages.print(f"  wrote {directory / name}", markup=False)


def check_against_schema(documents: Sequence[Mapping[str, Any]], version: str) -> None:
    """Refuse documents that a cluster would not take, as far as the schema of its version says.

    Args:
        documents: manifests of Kubernetes.
        version: of the cluster, ``major.minor``; a patch number does not count.

    Raises:
        ConfigurationError: the library is missing, the version is unknown to it, or a document does not fit; the
            message names its kind and the path in it.
    """
    try:
        import kubernetes_validate as schemas
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "--kubernetes-version needs the library kubernetes-validate.", remedy="install millrace[kubernetes]"
        ) from error
    known = [schemas.utils.major_minor(each) for each in schemas.utils.all_versions()]
    wanted = ".".join(version.removeprefix("v").split(".")[:2])
    if wanted not in known:
        raise ConfigurationError(
            f"What Kubernetes {version} takes is not known.",
            remedy=f"give major.minor; {known[0]} to {known[-1]} are known, a newer kubernetes-validate may know more",
        )
    for document in documents:
        try:
            schemas.validate(dict(document), wanted, strict=True)
        except schemas.ValidationError as error:
            path = ".".join(str(part) for part in error.path)
            raise ConfigurationError(
                f"Kubernetes {wanted} does not take the {document['kind']}: {path}: {error.message}.",
                remedy="correct the section launcher of the specification",
            ) from error
