"""kio and kafka-python write the same bytes as we do and read the same values, for every API and version they know."""

from typing import Any

import attrs
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.api_versions import ApiVersionsResponse
from tests.examples import examples
from tests.kafka_compat.protocol import values

EXAMPLES = settings(max_examples=examples(2), phases=[Phase.generate, Phase.shrink], database=None)


@pytest.mark.parametrize(("api", "version"), values.VERSIONS, ids=values.NAMES)
@EXAMPLES
@given(data=st.data())
def test_kio_reads_and_writes_the_same_bytes(api: Api[Any, Any], version: int, data: st.DataObject) -> None:
    for cls in values.both(api):
        message = data.draw(values.messages(cls, version))
        ours = values.encode(cls, api, version, message)
        kio_class = values.kio_schema(api, cls, version)
        read = values.kio_read(kio_class, ours)
        assert values.from_kio(cls, version, read) == message
        assert values.kio_write(kio_class, read) == ours
        assert values.decode(cls, api, version, ours) == message


@pytest.mark.parametrize(("api", "version"), values.IN_KAFKA_PYTHON, ids=values.NAMES_IN_KAFKA_PYTHON)
@EXAMPLES
@given(data=st.data())
def test_kafka_python_reads_and_writes_the_same_bytes(api: Api[Any, Any], version: int, data: st.DataObject) -> None:
    for cls in values.both(api):
        theirs = values.kafka_python_class(cls)
        message = data.draw(values.messages(cls, version))
        if cls is ApiVersionsResponse:
            message = attrs.evolve(message, error_code=0)  # a response with an error is always read as version 0
        ours = values.encode(cls, api, version, message)
        assert bytes(values.to_kafka_python(theirs, cls, version, message).encode(version=version)) == ours
        assert values.from_kafka_python(cls, version, theirs.decode(ours, version=version)) == message
