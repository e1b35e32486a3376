

def _haft_fix_time_and_seed(seed, now, names):
    import datetime
    import random
    import sys
    import time
    import uuid

    swaps = []
    if seed is not None:
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)
        swaps.append((uuid, "uuid4", lambda: uuid.UUID(int=random.getrandbits(128), version=4)))
    if now is not None:
        real, day = datetime.datetime, datetime.date

        class Meta(type):
            def __instancecheck__(cls, value):
                return isinstance(value, cls.__mro__[1])

        class Datetime(real, metaclass=Meta):
            @classmethod
            def now(cls, tz=None):
                return cls.fromtimestamp(now, tz)

            @classmethod
            def utcnow(cls):
                return cls.fromtimestamp(now, datetime.timezone.utc).replace(tzinfo=None)

            @classmethod
            def today(cls):
                return cls.fromtimestamp(now)

        class Date(day, metaclass=Meta):
            @classmethod
            def today(cls):
                return cls.fromtimestamp(now)

        swaps += [(time, "time", lambda: now), (time, "time_ns", lambda: int(now * 1e9))]
        swaps += [(datetime, "datetime", Datetime), (datetime, "date", Date)]
    for module, name, fake in swaps:
        old = getattr(module, name)
        setattr(module, name, fake)
        for own, value in list(names.items()):
            if value is old:
                names[own] = fake


_haft_fix_time_and_seed({{SEED}}, {{TIME}}, globals())
