"""Requests to object stores: with retries, errors that say what to do, and concurrency."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from daskfs import errors, interrupts
from daskfs.errors import StorageError, did_you_mean
from daskfs.objects.address import redacted

ConfigError = errors.ConfigError.about("object-stores")

MOST_AT_ONCE = 32
"""Maximum number of simultaneous requests of a process."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
"""Pauses between tries: doubled after each try, and shortened at random by up to half to avoid synchronised retries."""
TIMEOUT_S, CONNECT_TIMEOUT_S = 60.0, 10.0
"""Time limits of a single try."""

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>")
_KIND = re.compile(r"kind: (\w+)")
_KEY = re.compile(r"Configuration key: '(\w+)'")
_CREDENTIALS = {
    *("ExpiredToken", "InvalidToken", "TokenRefreshRequired", "ExpiredAuthenticationToken"),
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "AuthorizationHeaderMalformed"),
}
_TRANSIENT = (408, 425, 429)

T = TypeVar("T")


class Transient(Exception):
    """The response is incomplete or damaged: try again."""


def n_tries() -> int:
    """Return the maximum number of tries of a request."""
    return whole_setting("DASKFS_REQUEST_TRIES", 8)


def patience_s() -> float:
    """Return the time after the first try, in seconds, after which a request is not tried again."""
    return float(whole_setting("DASKFS_REQUEST_PATIENCE_S", 120))


def whole_setting(name: str, default: int) -> int:
    """Return a positive integer from an environment variable.

    Raises
    ------
    ConfigError
        The variable has another value.
    """
    value = os.environ.get(name, "")
    if value and not (value.isdecimal() and int(value) > 0):
        raise ConfigError(f"expected a whole number from 1, found {value!r}", name, "fix or unset it")
    return int(value) if value else default


def answered(ask: Callable[[], T], shown: str, over: threading.Event | None = None) -> T:
    """Return the result of a request, with retries if these may help.

    Parameters
    ----------
    ask : callable
        The request.
    shown : str
        The address, for messages.
    over : Event, optional
        Set if nobody waits for the response any more.

    Raises
    ------
    FileNotFoundError
    StorageError
        Access is denied, or there is no response after the maximum number of tries or time.
    """
    begun, pause, tries = time.monotonic(), FIRST_PAUSE_S, n_tries()
    for k in range(1, tries + 1):
        try:
            return ask()
        except Exception as fault:
            reason = _reason_to_try_again(fault, shown)
            waited = time.monotonic() - begun
            if k == tries or waited + pause > patience_s() or (over is not None and over.is_set()):
                problem = f"no complete response after {k} {'try' if k == 1 else 'tries'} in {waited:.0f} s: {reason}"
                remedy = "check the address and the network, and run again; see DASKFS_REQUEST_TRIES and _PATIENCE_S"
                raise StorageError(problem, shown, remedy) from None
        length = pause * random.uniform(0.5, 1.0)
        over.wait(length) if over is not None else time.sleep(length)
        pause = min(2 * pause, LONGEST_PAUSE_S)
    raise AssertionError("the last try returns or raises")


def _reason_to_try_again(fault: Exception, shown: str) -> str:
    """Return the reason to try a request again; raise an error if that would not help.

    The library's messages may contain signed addresses, so only codes from them are shown.
    """
    if isinstance(fault, Transient):
        return str(fault)
    if isinstance(fault, FileNotFoundError):
        raise FileNotFoundError(2, "no such object", shown) from None
    if isinstance(fault, StorageError) or not type(fault).__module__.startswith(("obstore", "builtins")):
        raise fault
    text, name = str(fault), type(fault).__name__
    status, code = _STATUS.search(text), _CODE.search(text)
    number, word = int(status[1]) if status else 0, code[1] if code else ""
    reply = " ".join(filter(None, [status[1] if status else "", word])) or name
    if name in ("PermissionDeniedError", "UnauthenticatedError") or word in _CREDENTIALS or number in (401, 403):
        problem = f"access denied ({reply}): wrong or expired credentials, missing permission, or no such object"
        raise StorageError(problem, shown, _how_to_authorise(shown)) from None
    if name in ("AlreadyExistsError", "PreconditionError"):
        raise FileExistsError(17, "the object exists", shown) from None
    if name in ("NotSupportedError", "InvalidPathError", "UnknownConfigurationKeyError"):
        raise StorageError(f"not supported here ({name})", shown, "check the address") from None
    if 300 <= number < 500 and number not in _TRANSIENT:
        raise StorageError(f"refused with {reply}", shown, "check the address, the region and the endpoint") from None
    if not isinstance(fault, _base_error()):
        raise fault
    if "redential" in text or ("metadata" in text.lower() and "169.254" in text):
        problem = "no credentials were found"
        raise StorageError(problem, shown, _how_to_authorise(shown)) from None
    kind = _KIND.search(text)
    return f"the server answered {reply}" if number else f"the connection failed ({kind[1] if kind else name})"


def _base_error() -> type[Exception]:
    import obstore.exceptions

    found: type[Exception] = obstore.exceptions.BaseError
    return found


_AUTHORISE = {
    "s3": "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN, AWS_REGION) here and on workers",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS here and on workers",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY here and on workers",
    "http": "check the address: a signed address may have expired",
}


def _how_to_authorise(shown: str) -> str:
    return _AUTHORISE.get(_short(shown), "check the address")


def _short(address: str) -> str:
    """Return the kind of an address: "s3" for s3a://."""
    scheme = address.partition(":")[0].lower()
    return {"s3a": "s3", "abfs": "az", "abfss": "az", "https": "http"}.get(scheme, scheme)


_making = threading.Lock()


def client_of(root: str, options: tuple[tuple[str, str], ...] = ()) -> Any:
    """Return obstore's client for a bucket or host; there is one per process, which keeps its connections.

    Parameters
    ----------
    root : str
        "s3://bucket", "https://host".
    options : tuple of pairs of str
        Options of obstore, which override the environment.

    Raises
    ------
    StorageError
        obstore is not installed.
    ConfigError
        The scheme or an option is unknown.
    """
    with interrupts.held(), _making:  # a store in memory must not be created twice
        return _client_of(root, options, tuple(os.environ.get(name, "") for name in _ENDPOINTS))


@cache
def _client_of(root: str, options: tuple[tuple[str, str], ...], endpoints: tuple[str, ...]) -> Any:
    try:
        import obstore.store
    except ImportError:
        problem = "object stores and HTTP servers need obstore, which is not installed"
        raise StorageError(problem, root.partition("://")[0] + "://", "pip install 'daskfs[cloud]'") from None
    if root.startswith("memory"):
        return obstore.store.MemoryStore()
    given = dict(options)
    _refuse_options_of_connections(root, given)
    more: dict[str, Any] = {"config": given} if given else {}
    if root.startswith("s3") and (provider := _profile(given)) is not None:
        more["credential_provider"] = provider
    try:
        return obstore.store.from_url(
            root,
            client_options={
                "timeout": timedelta(seconds=TIMEOUT_S),
                "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
                "allow_http": any("http://" in one for one in (root, *given.values(), *endpoints)),
            },
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=TIMEOUT_S)},  # `answered` retries
            **more,
        )
    except BaseException as fault:
        if not isinstance(fault, (_base_error(), ValueError, TypeError)) and type(fault).__name__ != "PanicException":
            raise
        unknown = _KEY.search(str(fault)) if type(fault).__name__ == "UnknownConfigurationKeyError" else None
        if unknown:
            shown = f"storage_options.{unknown[1]}"
            bare = _bare(unknown[1])
            near = did_you_mean(_OF_OTHERS.get(bare, bare), _OPTIONS.get(_short(root), ()))
            raise ConfigError(f"unknown storage option of {redacted(root)}", shown, _REMEDY_OF_OPTIONS + near) from None
        problem = f"cannot be used as an address or with these storage options ({type(fault).__name__})"
        remedy = f"the options are obstore's: {', '.join(sorted(given)) or 'none were given'}"
        raise ConfigError(problem, redacted(root), remedy) from None


def _refuse_options_of_connections(root: str, given: Mapping[str, str]) -> None:
    """Refuse by name obstore's options of the connection, with which it would panic.

    Raises
    ------
    ConfigError
    """
    for name in given:
        if (bare := _bare(name)) in _OF_CONNECTIONS:
            remedy = _OF_CONNECTIONS[bare] or "remove it: daskfs sets up the connections itself"
            raise ConfigError(f"not a storage option of {redacted(root)}", f"storage_options.{name}", remedy)


def _bare(name: str) -> str:
    """Return an option's name without the provider's prefix."""
    return re.sub("^(aws|azure|google)_", "", name.lower())


_TIME = "remove it: a try takes at most a minute, and DASKFS_REQUEST_PATIENCE_S limits the time for retries"
_PROXY = "remove it, and set HTTPS_PROXY or HTTP_PROXY (NO_PROXY) in the environment, on workers too"
_OF_CONNECTIONS = {
    "allow_http": "remove it: an endpoint that begins with http:// is enough",
    **dict.fromkeys(("timeout", "connect_timeout", "read_timeout", "pool_idle_timeout"), _TIME),
    **dict.fromkeys(("proxy_url", "proxy_excludes", "proxy_ca_certificate"), _PROXY),
    **dict.fromkeys(("allow_invalid_certificates", "default_content_type", "http1_only", "http2_only"), ""),
    **dict.fromkeys(("http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle"), ""),
    **dict.fromkeys(("pool_max_idle_per_host", "randomize_addresses", "user_agent"), ""),
}
_OPTIONS = {
    "s3": (
        *("access_key_id", "secret_access_key", "session_token", "region", "default_region", "endpoint", "bucket"),
        *("skip_signature", "virtual_hosted_style_request", "unsigned_payload", "request_payer", "role_arn"),
        *("role_session_name", "web_identity_token_file", "server_side_encryption", "sse_kms_key_id"),
    ),
    "gs": ("service_account", "service_account_key", "application_credentials", "bucket", "skip_signature"),
    "az": (
        *("account_name", "account_key", "client_id", "client_secret", "tenant_id", "sas_key", "token", "endpoint"),
        *("use_emulator", "use_fabric_endpoint", "container_name", "skip_signature", "federated_token_file"),
    ),
}
"""The most common options, for suggestions; obstore decides which are valid."""
_OF_OTHERS = {"key": "access_key_id", "secret": "secret_access_key", "anon": "skip_signature"}
"""Names of options in fsspec."""
_REMEDY_OF_OPTIONS = "storage options are obstore's: see docs/object_stores.md"


_ENDPOINTS = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
    "GOOGLE_SERVICE_ACCOUNT_KEY",  # may contain the address of a server other than Google's
)


def _profile(given: Mapping[str, str]) -> Any:
    """Return a provider that reads ~/.aws, unlike obstore, if there are no other credentials and boto3 is installed."""
    if any(key.endswith(("access_key_id", "skip_signature", "token")) for key in given):
        return None
    if {"AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE"} & os.environ.keys():
        return None
    named = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    if "AWS_PROFILE" not in os.environ and not Path(named).expanduser().exists():
        return None
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return None
    return Boto3CredentialProvider(boto3.Session())


@cache
def _pool() -> interrupts.Pool:
    return interrupts.Pool(MOST_AT_ONCE, thread_name_prefix="daskfs-request")


def begun(function: Callable[..., T], *args: Any) -> Future[T]:
    """Start a request in a thread of the pool."""
    return _pool().submit(function, *args)


def aside(function: Callable[..., T], *args: Any) -> T:
    """Return the result of a function that waits for requests; it runs in a thread that an interrupt abandons."""
    return interrupts.result_of(begun(function, *args)) if interrupts.is_reached() else function(*args)


def all_of(function: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """Return ``function(item)`` for all items, in order, concurrently; the function must not start other requests."""
    futures = [begun(function, item) for item in items]
    try:
        return [interrupts.result_of(future) for future in futures]
    finally:
        with interrupts.held():
            for future in futures:
                future.cancel()
