"""Deliberate bugs of authorization: access lists and accounts that allow too much, or refuse too little of a request."""

from collections.abc import Sequence

from tests.mutants.mutant import Mutant, plant

ACLS = "kafka_compat.acls"
TOPICS = "kafka_compat.broker.guards.topics"
GROUPS = "kafka_compat.broker.guards.groups"
CLUSTER = "kafka_compat.broker.guards.cluster"
FETCH = "kafka_compat.broker.requests.fetch"
CALLS = "kafka_compat.broker.calls"
ACCOUNTS = "rocketmq_compat.acls"
GUARD = "rocketmq_compat.broker.authorization"
ORACLES = ["access"]


def access_bug(name: str, bug: str, module: str, old: str, new: str) -> Mutant:
    """A bug that the tests of authorization are to find; its name begins with `access-`."""
    return plant(f"access-{name}", bug, module, old, new, oracles=ORACLES, judge="access")


ACCESS_BUGS: Sequence[Mutant] = (
    access_bug(
        "allows-what-is-denied",
        "an ACL that allows outweighs one that denies",
        ACLS,
        "        return allowed & ~denied\n",
        "        return allowed\n",
    ),
    access_bug(
        "implies-too-much",
        "CREATE on a topic allows DESCRIBE",
        ACLS,
        "bits_of(AclOperation.READ, AclOperation.WRITE,",
        "bits_of(AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE,",
    ),
    access_bug(
        "prefix-is-a-wildcard",
        "a prefix matches names that are shorter than itself",
        ACLS,
        "for length in self.lengths if length <= len(name)]",
        "for length in self.lengths]\n        found += [pair for prefix, pair in self.prefixed.items() if prefix.startswith(name)]",
    ),
    access_bug(
        "keeps-old-decisions",
        "a decision is kept after the ACLs have changed",
        ACLS,
        "        if self._version != self.acls.version:\n",
        "        if self._version < 0:\n",
    ),
    access_bug(
        "forgets-the-host",
        "an ACL for one host counts for all",
        ACLS,
        "            if acl.host in hosts:\n",
        "            if acl.host:\n",
    ),
    access_bug(
        "open-beside-acls-of-others",
        "a resource with ACLs of others is open to a principal without any",
        ACLS,
        "return EVERYTHING if self.allows_if_none and not self._has_any(kind, name) else 0",
        "return EVERYTHING if self.allows_if_none else 0",
    ),
    access_bug(
        "finds-some-topic-behind-a-denial",
        "a denial of all topics leaves an idempotent producer its right",
        ACLS,
        "        if WILDCARD in denied:\n            return False\n",
        "",
    ),
    access_bug(
        "produces-by-id",
        "a topic that is given by its id is not looked at",
        TOPICS,
        "    return None if found is None else found.name\n",
        "    return None\n",
    ),
    access_bug(
        "acknowledges-nothing-silently",
        "a refused batch without acknowledgement closes nothing",
        CALLS,
        '            self.close("the caller is not authorized for all of a request that has no answer")\n',
        "            super().answer_nothing()\n",
    ),
    access_bug(
        "creates-on-first-use",
        "asking for a missing topic makes it without CREATE",
        TOPICS,
        "    return on_cluster or access.may(AclOperation.CREATE, TOPIC, topic.name)\n",
        "    return True\n",
    ),
    access_bug(
        "lists-all-topics",
        "the metadata of all topics holds those that may not be described",
        TOPICS,
        "        if asks_all:\n",
        "        if asks_all and not topics:\n",
    ),
    access_bug(
        "asks-for-all-in-version-0",
        "a request of version 0 whose topics are all refused becomes one for all topics",
        TOPICS,
        "    if not left and version == 0:\n",
        "    if False:\n",
    ),
    access_bug(
        "commits-for-any-group",
        "offsets are committed without READ on the group",
        GROUPS,
        "    if not access.may(AclOperation.READ, GROUP, request.group_id):\n        return Denied(error_response(version, request, GROUP_FAILED))\n    parts = split(access, AclOperation.READ, TOPIC, request.topics, lambda topic: name_of",
        "    parts = split(access, AclOperation.READ, TOPIC, request.topics, lambda topic: name_of",
    ),
    access_bug(
        "fetches-all-offsets",
        "a fetch of all offsets of a group shows topics that may not be described",
        GROUPS,
        "        if group.group_id in open_groups:\n",
        "        if group.group_id in refused_topics:\n",
    ),
    access_bug(
        "alters-acls",
        "ACLs are made with DESCRIBE on the cluster",
        CLUSTER,
        "guard_create_acls = _on_cluster(AclOperation.ALTER,",
        "guard_create_acls = _on_cluster(AclOperation.DESCRIBE,",
    ),
    access_bug(
        "reads-in-an-old-session",
        "a session that was allowed to read reads on after its right is gone",
        FETCH,
        "        if access is not None and session.follower < 0 and not self._may_read(access, partition.key):\n",
        "        if access is not None and fetch.full and not self._may_read(access, partition.key):\n",
    ),
    access_bug(
        "fails-late-in-a-quiet-session",
        "a session learns that its right is gone only when there are records",
        FETCH,
        "            session.news.update(dict.fromkeys(session.partitions.values()))\n",
        "",
    ),
    access_bug(
        "reads-as-a-follower",
        "a client that takes over a follower's session reads uncommitted records",
        FETCH,
        "        follows = follower >= 0 or (known is not None and known.follower >= 0)\n",
        "        follows = follower >= 0 or known is None and follower == 0\n",
    ),
    access_bug(
        "signs-names-alone",
        "the signature of a RocketMQ request does not cover its body",
        ACCOUNTS,
        '"".join(values).encode() + bytes(command.body)',
        '"".join(values).encode()',
    ),
    access_bug(
        "takes-no-signature",
        "a request of a known account needs no signature",
        ACCOUNTS,
        '        if not hmac.compare_digest(signature.encode(), command.ext.get(SIGNATURE, "").encode()):\n',
        "        if command.ext.get(SIGNATURE, signature) != signature:\n",
    ),
    access_bug(
        "pulls-for-any-group",
        "a pull needs no right to its group",
        ACCOUNTS,
        '            yield from _topic(ext.get("topic"), Perm.SUB)\n            yield from _group(ext.get("consumerGroup"))\n',
        '            yield from _topic(ext.get("topic"), Perm.SUB)\n',
    ),
    access_bug(
        "denies-less-than-it-grants",
        "a permission DENY|PUB publishes",
        ACCOUNTS,
        "            if Perm.DENY in owned or needed not in owned:\n",
        "            if needed not in owned:\n",
    ),
    access_bug(
        "forgets-accounts-on-a-bad-file",
        "a file that cannot be read leaves a broker without accounts",
        GUARD,
        "            if self._seldom.note(str(error)) is not None:\n",
        "            self.rules = AclRules()\n            if self._seldom.note(str(error)) is not None:\n",
    ),
    plant(
        "policies-take-any-password",
        "the signature of a user is not compared",
        "rocketmq_compat.policies",
        '        if not hmac.compare_digest(signature.encode(), command.ext.get(SIGNATURE, "").encode()):\n',
        "        if not signature:\n",
        oracles=ORACLES,
        judge="access",
    ),
    plant(
        "policies-let-disabled-users-in",
        "a user that was disabled is served",
        "rocketmq_compat.policies",
        "        if not user.is_enabled:\n",
        "        if user.is_enabled is None:\n",
        oracles=ORACLES,
        judge="access",
    ),
    plant(
        "policies-let-any-prefix-decide",
        "a shorter prefix counts as much as a longer one",
        "rocketmq_compat.policies",
        '-len(self.name or "") if self.is_prefix else 0\n',
        "0\n",
        oracles=ORACLES,
        judge="access",
    ),
    plant(
        "policies-forget-addresses",
        "an entry holds for every address",
        "rocketmq_compat.policies",
        "        return is_named and (not self.source_ips or _comes_from(host, self.source_ips))\n",
        "        return is_named\n",
        oracles=ORACLES,
        judge="access",
    ),
    plant(
        "policies-let-users-make-super-users",
        "a user with the cluster makes super users",
        "rocketmq_compat.broker.policies",
        "        if touches_super and not self._is_super(call):\n",
        "        if touches_super and not body:\n",
        oracles=ORACLES,
        judge="access",
    ),
    plant(
        "policies-answer-before-they-last",
        "a change is answered before it is on the disk",
        "rocketmq_compat.broker.policies",
        "            self._disk.submit(write, partial(self._end_write, call, rules))\n",
        "            self._end_write(call, rules, None)\n",
        oracles=ORACLES,
        judge="access",
    ),
)
