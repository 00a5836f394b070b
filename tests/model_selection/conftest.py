from tests.contract.conftest import lab as lab
