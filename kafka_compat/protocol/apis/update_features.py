"""UpdateFeatures (57): another level of a feature of the cluster (KIP-584). From version 2 one error stands for all."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import Message, array, boolean, int8, int16, int32, string


class FeatureUpdate(Message):
    """A feature, and the level that it is to have; 0 turns it off."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0", default=False)
    upgrade_type: int = int8("1+", default=1)
    """1 allows no downgrade, 2 a safe one, 3 any."""


class UpdateFeaturesRequest(Message):
    """Asks for levels, or whether they would be taken."""

    timeout_ms: int = int32(default=60000)
    feature_updates: tuple[FeatureUpdate, ...] = array(FeatureUpdate)
    validate_only: bool = boolean("1+", default=False)


class UpdatedFeature(Message):
    """The outcome for one feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class UpdateFeaturesResponse(Message):
    """The outcome."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: tuple[UpdatedFeature, ...] = array(UpdatedFeature, "0-1", default=())


UPDATE_FEATURES = Api.of(
    57, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse, versions="0-2", flexible="0+"
)
